/* job.c - see job.h. */
#include "job.h"

#include "base/mem.h"
#include "clock.h"

struct job {
    job_work work;
    int32_t *tok; /* owned, as work.tok */
    int *mark;    /* owned */
    double limit, created;
    atomic_int n_ref;
    atomic_int cancel; /* job_cancel_reason */
    atomic_int done, total;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;  /* the reader */
    job_state state;
    job_box box;
    int n_box;
    bool posted;        /* the box holds whole steps: the reader may take it */
    double stall_since; /* 0: there is room */
    double stalled;
    job_result result;
};

void job_cancel_error(job_cancel_reason why, api_error *e)
{
    static const struct {
        int status;
        const char *code, *msg;
    } known[] = {
#define JOB_CANCEL_ROW(name, status, code, msg) {status, code, msg},
        JOB_CANCEL_LIST(JOB_CANCEL_ROW)
#undef JOB_CANCEL_ROW
    };
    if (known[why].status)
        api_fail(e, known[why].status, known[why].code, NULL, "%s", known[why].msg);
}

/* ---- Boxes ---- */

void job_box_init(job_box *b)
{
    buf_init(&b->tok, 4 * (size_t)JOB_BOX * sizeof(job_token));
    buf_init(&b->text, (size_t)1 << 24);
    b->told = false;
}

void job_box_deinit(job_box *b)
{
    buf_deinit(&b->tok);
    buf_deinit(&b->text);
}

const job_token *job_box_get(const job_box *b, int *n)
{
    *n = (int)(b->tok.len / sizeof(job_token));
    return (const job_token *)(const void *)b->tok.data;
}

/* ---- Life ---- */

job *job_create(const request *req, int32_t *tok, int n_tok, int *mark, int n_mark,
                double answer_seconds)
{
    job *j = mem_zalloc(sizeof *j);
    if (!j || clock_cond_init(&j->wake) != 0) {
        mem_free(j);
        return NULL;
    }
    pthread_mutex_init(&j->lock, NULL); /* cannot fail with default attributes */
    j->work = (job_work){.req = req, .tok = tok, .n_tok = n_tok, .mark = mark, .n_mark = n_mark};
    j->tok = tok;
    j->mark = mark;
    j->limit = answer_seconds;
    j->created = clock_now();
    atomic_init(&j->n_ref, 1);
    atomic_init(&j->total, n_tok);
    job_box_init(&j->box);
    return j;
}

job *job_ref(job *j)
{
    atomic_fetch_add(&j->n_ref, 1);
    return j;
}

void job_unref(job *j)
{
    if (!j || atomic_fetch_sub(&j->n_ref, 1) > 1)
        return;
    ft_free(j->tok);
    ft_free(j->mark);
    job_box_deinit(&j->box);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
    mem_free(j);
}

void job_cancel(job *j, job_cancel_reason why)
{
    int none = JOB_CANCEL_NONE;
    atomic_compare_exchange_strong(&j->cancel, &none, (int)why);
}

job_cancel_reason job_cancelled(const job *j)
{
    return (job_cancel_reason)atomic_load(&j->cancel);
}

bool job_has_ended(job *j)
{
    pthread_mutex_lock(&j->lock);
    bool ended = j->state == JOB_ENDED;
    pthread_mutex_unlock(&j->lock);
    return ended;
}

/* ---- The connection's side ---- */

job_news job_wait(job *j, job_box *box, double seconds)
{
    struct timespec until = clock_after(seconds);
    buf_clear(&box->tok);
    buf_clear(&box->text);
    box->told = false;
    pthread_mutex_lock(&j->lock);
    while (!j->posted && j->state != JOB_ENDED &&
           pthread_cond_timedwait(&j->wake, &j->lock, &until) == 0)
        ;
    bool ready = j->posted || j->state == JOB_ENDED;
    job_news news = ready && j->n_box > 0   ? JOB_TOKENS
                    : j->state == JOB_ENDED ? JOB_OVER
                                            : JOB_WAITING;
    if (news == JOB_TOKENS) {
        job_box taken = j->box;
        j->box = *box;
        *box = taken;
        j->n_box = 0;
        j->posted = false;
        if (j->stall_since > 0)
            j->stalled += clock_now() - j->stall_since;
        j->stall_since = 0;
    }
    pthread_mutex_unlock(&j->lock);
    return news;
}

const job_result *job_get_result(const job *j)
{
    return &j->result;
}

void job_progress(const job *j, int *done, int *total)
{
    *done = atomic_load(&j->done);
    *total = atomic_load(&j->total);
}

/* ---- The engine's side ---- */

const job_work *job_start(job *j, double now)
{
    pthread_mutex_lock(&j->lock);
    j->state = JOB_RUNNING;
    j->result.queue_seconds = now - j->created;
    pthread_mutex_unlock(&j->lock);
    return &j->work;
}

const job_work *job_get_work(const job *j)
{
    return &j->work;
}

void job_set_progress(job *j, int done, int total)
{
    atomic_store(&j->done, done);
    atomic_store(&j->total, total);
}

bool job_has_room(job *j, double now)
{
    pthread_mutex_lock(&j->lock);
    bool room = j->n_box + JOB_ROUND <= JOB_BOX;
    if (!room && j->stall_since == 0)
        j->stall_since = now;
    pthread_mutex_unlock(&j->lock);
    return room;
}

double job_stalled(job *j, double now)
{
    pthread_mutex_lock(&j->lock);
    double s = j->stalled + (j->stall_since > 0 ? now - j->stall_since : 0);
    pthread_mutex_unlock(&j->lock);
    return s;
}

double job_age(const job *j, double now)
{
    return now - j->created;
}

double job_limit(const job *j)
{
    return j->limit;
}

double job_queued(const job *j)
{
    return j->result.queue_seconds;
}

ft_status job_put(job *j, const ft_token *t, ft_error *err)
{
    pthread_mutex_lock(&j->lock);
    job_token k = {.id = t->id,
                   .kind = t->kind,
                   .logprob = t->logprob,
                   .logprob_sampled = t->logprob_sampled,
                   .n_top = t->n_top,
                   .text_at = j->box.text.len,
                   .len = t->len};
    for (int i = 0; i < t->n_top; i++)
        k.top[i] = t->top[i];
    if (t->len > 0)
        buf_put(&j->box.text, t->text, t->len);
    buf_put(&j->box.tok, &k, sizeof k);
    ft_status st = buf_status(&j->box.text, "tokens that wait for their reader", err);
    if (st == FT_OK)
        st = buf_status(&j->box.tok, "tokens that wait for their reader", err);
    if (st == FT_OK)
        j->n_box++;
    j->posted = false; /* until the step's last token is there, and what was told of it */
    pthread_mutex_unlock(&j->lock);
    return st;
}

void job_tell(job *j, const ft_generate_stats *stats, int n_cached, double now)
{
    pthread_mutex_lock(&j->lock);
    j->box.told = true;
    j->box.so_far = (job_result){.gen = *stats,
                                 .n_cached = n_cached,
                                 .queue_seconds = j->result.queue_seconds,
                                 .total_seconds = now - j->created};
    pthread_mutex_unlock(&j->lock);
}

void job_post(job *j)
{
    pthread_mutex_lock(&j->lock);
    j->posted = j->n_box > 0;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
}

void job_end(job *j, const ft_generate_stats *stats, int n_cached, ft_status st,
             const ft_error *err, double now)
{
    pthread_mutex_lock(&j->lock);
    if (stats)
        j->result.gen = *stats;
    j->result.n_cached = n_cached;
    j->result.st = st;
    if (err)
        j->result.err = *err;
    if (j->state == JOB_QUEUED)
        j->result.queue_seconds = now - j->created;
    j->result.total_seconds = now - j->created;
    j->state = JOB_ENDED;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
}
