/* jdoc_print.c - JSON as Python's json.dumps(v, ensure_ascii=False) prints it.
 *
 * Numbers with a fraction or an exponent become Python's repr() of a float: the shortest digits that
 * read back as the same double, without an exponent where the first digit stands at 10^-4 .. 10^15.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jdoc.h"
#include "text/utf8.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The mantissa is given to strtod as an integer, so that the locale's decimal point plays no part. */
double jdoc_double(jdoc_str number)
{
    char digits[JDOC_MAX_FLOAT + 32];
    size_t n = 0, i = 0;
    int n_fraction = 0, exponent = 0, sign = 1;
    bool fraction = false;
    for (; i < number.len && number.s[i] != 'e' && number.s[i] != 'E'; i++) {
        if (number.s[i] == '.') {
            fraction = true;
            continue;
        }
        digits[n++] = number.s[i];
        n_fraction += fraction;
    }
    for (i++; i < number.len; i++) {
        if (number.s[i] == '-')
            sign = -1;
        else if (is_digit(number.s[i]) && exponent < 100000) /* far outside anyway */
            exponent = 10 * exponent + (number.s[i] - '0');
    }
    snprintf(digits + n, sizeof digits - n, "e%d", sign * exponent - n_fraction);
    return strtod(digits, NULL);
}

/* The shortest digits of x > 0 into digit [17]; returns their number. x is 0.d1d2d3... * 10^*point. */
static int shortest(double x, char digit[17], int *point)
{
    char t[40];
    /* 15 digits and no fewer need be tried: where a shorter text means x, they end in zeros. Only
     * below DBL_MIN doubles are too far apart for that. */
    for (int n = x < DBL_MIN ? 1 : 15; n <= 17; n++) {
        snprintf(t, sizeof t, "%.*e", n - 1, x);
        if (strtod(t, NULL) == x)
            break;
        /* Above a power of two doubles are twice as far apart as below it: the next number of n digits
         * may be nearer to x than to any other double where the nearest one is not. */
        char *last = strchr(t, 'e') - 1;
        if (n >= 15 && *last != '9') {
            ++*last;
            if (strtod(t, NULL) == x)
                break;
        }
    }
    int k = 0;
    const char *p = t;
    for (; *p != 'e'; p++)
        if (is_digit(*p)) /* and not the decimal point of the locale */
            digit[k++] = *p;
    *point = (int)strtol(p + 1, NULL, 10) + 1;
    while (k > 1 && digit[k - 1] == '0')
        k--;
    return k;
}

static void put_zeros(buf *out, int n)
{
    for (; n > 0; n--)
        buf_putc(out, '0');
}

static void put_double(double x, buf *out)
{
    if (signbit(x))
        buf_putc(out, '-');
    char digit[17] = "0";
    int point = 1;
    int n = x != 0 ? shortest(fabs(x), digit, &point) : 1;
    if (point > 16 || point < -3) {
        buf_putc(out, digit[0]);
        if (n > 1) {
            buf_putc(out, '.');
            buf_put(out, digit + 1, (size_t)n - 1);
        }
        buf_printf(out, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
    } else if (point <= 0) {
        buf_puts(out, "0.");
        put_zeros(out, -point);
        buf_put(out, digit, (size_t)n);
    } else {
        int whole = n < point ? n : point;
        buf_put(out, digit, (size_t)whole);
        put_zeros(out, point - whole);
        buf_putc(out, '.');
        if (n > whole)
            buf_put(out, digit + whole, (size_t)(n - whole));
        else
            buf_putc(out, '0');
    }
}

void jdoc_print_number(jdoc_str number, buf *out)
{
    bool integer = true;
    for (size_t i = 0; i < number.len; i++)
        integer = integer && (is_digit(number.s[i]) || number.s[i] == '-');
    if (!integer)
        put_double(jdoc_double(number), out);
    else if (jdoc_str_is(number, "-0"))
        buf_putc(out, '0'); /* an integer has no sign there */
    else
        buf_put(out, number.s, number.len);
}

static void put_escape(uint8_t c, buf *out)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *p = c ? strchr(from, c) : NULL;
    if (p)
        buf_printf(out, "\\%c", to[p - from]);
    else
        buf_printf(out, "\\u%04x", c);
}

void jdoc_print_string(jdoc_str s, buf *out)
{
    const uint8_t *p = (const uint8_t *)s.s;
    buf_putc(out, '"');
    for (size_t i = 0, len; i < s.len; i += len) {
        if (utf8_scan(p + i, s.len - i, &len) != UTF8_CHAR)
            buf_puts(out, "\xEF\xBF\xBD");
        else if (p[i] < 0x20 || p[i] == '"' || p[i] == '\\')
            put_escape(p[i], out);
        else
            buf_put(out, p + i, len);
    }
    buf_putc(out, '"');
}

/* As deep as the reader let the tree become. */
void jdoc_print(const jdoc *d, const jdoc_node *v, buf *out)
{
    static const char *const word[] = {"null", "false", "true"};
    if (v->kind <= JDOC_TRUE) {
        buf_puts(out, word[v->kind]);
        return;
    }
    if (v->kind == JDOC_NUMBER) {
        jdoc_print_number(jdoc_text(d, v), out);
        return;
    }
    if (v->kind == JDOC_STRING) {
        jdoc_print_string(jdoc_text(d, v), out);
        return;
    }
    bool object = v->kind == JDOC_OBJECT;
    buf_putc(out, object ? '{' : '[');
    const jdoc_node *first = jdoc_first(d, v);
    for (const jdoc_node *i = first; i; i = jdoc_next(d, i)) {
        if (i != first)
            buf_puts(out, ", ");
        if (object) {
            jdoc_print_string(jdoc_key(d, i), out);
            buf_puts(out, ": ");
        }
        jdoc_print(d, i, out);
    }
    buf_putc(out, object ? '}' : ']');
}
