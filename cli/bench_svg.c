/* bench_svg.c - a report of `foretoken bench` as a picture: measured times as bars, floors as marks.
 *
 * One panel for each kind of time with a scale of its own; the picture takes the colours of the reader's
 * light or dark page and needs nothing from outside.
 */
#include <math.h>

#include "bench.h"

enum {
    WIDTH = 800,
    MARGIN = 16,
    LABEL = 210, /* of the bars' names */
    VALUE = 150, /* of the numbers behind them */
    BAR_LEFT = MARGIN + LABEL,
    BAR_WIDTH = WIDTH - 2 * MARGIN - LABEL - VALUE,
    ROW = 22,
    BAR = 14,
    HEAD = 74,  /* title and legend */
    PANEL = 46, /* a panel's name and axis */
};

/* Plain rules, each colour twice: not every viewer knows custom properties. */
static const char style[] =
    "<style>\n"
    "text { fill: #1b1f24; font: 12px system-ui, sans-serif }\n"
    ".page { fill: #ffffff } .faint { fill: #6b7480 } .grid { stroke: #d5dae0 }\n"
    ".bar { fill: #3b78c2 } .mark { fill: #d1495b }\n"
    ".title { font-size: 15px; font-weight: 600 } .name { font-weight: 600 }\n"
    ".end { text-anchor: end } .mid { text-anchor: middle }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  text { fill: #e4e8ed } .page { fill: #14171b } .faint { fill: #97a1ad }\n"
    "  .grid { stroke: #333a43 } .bar { fill: #5c9be6 } .mark { fill: #ff7a85 }\n"
    "}\n"
    "</style>\n";

static const char *const panel_name[BENCH_N_WHAT] = {
    "Prompt, ms per token", "Decode without drafts, ms per token", "With drafts, ms per token",
    "Draft step, ms",       "Verification, ms per round",          "Sampling, ms per token",
};

/* Text for XML. */
static void put_text(buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '&')
            buf_puts(b, "&amp;");
        else if (*s == '<')
            buf_puts(b, "&lt;");
        else if ((unsigned char)*s >= ' ')
            buf_putc(b, *s);
    }
}

static int lines_of(const bench_report *r, bench_what w, double *most)
{
    int n = 0;
    *most = 0;
    for (int i = 0; i < r->n_line; i++) {
        const bench_line *l = &r->line[i];
        if (l->what != w)
            continue;
        n++;
        double x = l->t.high > l->floor_ms ? l->t.high : l->floor_ms;
        *most = x > *most ? x : *most;
    }
    return n;
}

/* A round distance of ticks: 1, 2 or 5 times a power of ten, at most six of them up to most. */
static double tick_step(double most)
{
    double power = pow(10, floor(log10(most / 6)));
    for (int i = 0; i < 3; i++) {
        static const double factor[] = {1, 2, 5};
        if (most / (factor[i] * power) <= 6)
            return factor[i] * power;
    }
    return 10 * power;
}

static void put_axis(buf *b, int top, int n_row, double most, double scale)
{
    double step = tick_step(most);
    int bottom = top + n_row * ROW;
    for (int i = 0; i * step <= most; i++) {
        double x = BAR_LEFT + i * step * scale;
        buf_printf(b, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x,
                   top, x, bottom);
        buf_printf(b, "<text class=\"faint mid\" x=\"%.1f\" y=\"%d\">%.6g</text>\n", x, bottom + 13,
                   i * step);
    }
}

static void put_bar(buf *b, const bench_line *l, int top, double scale)
{
    int mid = top + ROW / 2;
    buf_printf(b, "<text class=\"end\" x=\"%d\" y=\"%d\">depth %d", BAR_LEFT - 8, mid + 4,
               l->depth);
    if (l->drafts)
        buf_printf(b, ", %s", verify_name(l->rule));
    if (l->what != BENCH_PROMPT)
        buf_printf(b, ", temp %.2g", (double)l->temp);
    buf_puts(b, "</text>\n");
    double width = l->t.median * scale;
    buf_printf(b, "<rect class=\"bar\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>\n",
               BAR_LEFT, mid - BAR / 2, width, BAR);
    if (l->floor_ms > 0)
        buf_printf(b, "<rect class=\"mark\" x=\"%.1f\" y=\"%d\" width=\"3\" height=\"%d\"/>\n",
                   BAR_LEFT + l->floor_ms * scale - 1.5, mid - ROW / 2 + 1, ROW - 2);
    buf_printf(b, "<text x=\"%d\" y=\"%d\">", BAR_LEFT + BAR_WIDTH + 10, mid + 4);
    if (bench_speed(l) > 0)
        buf_printf(b, "%.1f tokens/s", bench_speed(l));
    else
        buf_printf(b, "%.3f ms", l->t.median);
    if (l->floor_ms > 0)
        buf_printf(b, ", %.0f %%", 100 * bench_efficiency(l));
    buf_puts(b, "</text>\n");
}

/* Returns the height of the panel; b NULL: only that. */
static int put_panel(buf *b, const bench_report *r, bench_what w, int top)
{
    double most;
    int n = lines_of(r, w, &most);
    if (n == 0 || most <= 0)
        return 0;
    if (b) {
        double scale = BAR_WIDTH / most;
        int first = top + 22, at = first;
        buf_printf(b, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", MARGIN, top + 14,
                   panel_name[w]);
        put_axis(b, first, n, most, scale);
        for (int i = 0; i < r->n_line; i++) {
            if (r->line[i].what != w)
                continue;
            put_bar(b, &r->line[i], at, scale);
            at += ROW;
        }
    }
    return n * ROW + PANEL;
}

static void put_head(buf *b, const bench_report *r)
{
    buf_printf(b, "<text class=\"title\" x=\"%d\" y=\"28\">", MARGIN);
    put_text(b, r->model);
    buf_printf(b, "</text>\n<text class=\"faint\" x=\"%d\" y=\"46\">", MARGIN);
    put_text(b, r->machine);
    buf_printf(b, ", %d threads, %s", r->info.n_thread, r->info.cpu);
    if (r->bandwidth > 0)
        buf_printf(b, ", reads %.1f GB/s", 1e-9 * r->bandwidth);
    buf_printf(
        b,
        "</text>\n<rect class=\"bar\" x=\"%d\" y=\"54\" width=\"24\" height=\"10\" rx=\"2\"/>"
        "<text class=\"faint\" x=\"%d\" y=\"63\">measured, median of %d</text>"
        "<rect class=\"mark\" x=\"%d\" y=\"52\" width=\"3\" height=\"14\"/>"
        "<text class=\"faint\" x=\"%d\" y=\"63\">floor: the bytes that must be read</text>\n",
        MARGIN, MARGIN + 30, r->plan->n_repeat, MARGIN + 190, MARGIN + 200);
}

void bench_svg(buf *b, const bench_report *r)
{
    int height = HEAD;
    for (int w = 0; w < BENCH_N_WHAT; w++)
        height += put_panel(NULL, r, (bench_what)w, 0);
    height += MARGIN;
    buf_printf(b,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" role=\"img\" aria-label=\"measured times and their floors\">\n",
               WIDTH, height, WIDTH, height);
    buf_puts(b, style);
    buf_printf(b, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    put_head(b, r);
    int top = HEAD;
    for (int w = 0; w < BENCH_N_WHAT; w++)
        top += put_panel(b, r, (bench_what)w, top);
    buf_puts(b, "</svg>\n");
}
