/* worker.c - see worker.h. */
#include "worker.h"

#include <pthread.h>

#include "base/mem.h"
#include "clock.h"
#include "slots.h"

typedef struct {
    ft_session *s;
    ft_generation *g; /* NULL: the slot is free */
    job *j;           /* a reference */
    ft_error failure; /* of the delivery of its tokens */
    int n_cached;
    double queue_seconds;
    double used; /* when it last ended a job */
} slot;

struct worker {
    worker_params p;
    ft_batch *batch;
    slot *slot;           /* [n_slot] */
    slot **active;        /* [n_active], the oldest first: prompts before others are read faster */
    ft_generation **step; /* [n_slot] */
    slot_view *view;      /* [n_slot] */
    int n_active;
    int n_ctx; /* of a session, for other threads */
    pthread_t thread;
    bool started;
    atomic_bool cancel_all, done;
};

/* ---- Ends ---- */

static void tell_metrics(worker *w)
{
    metrics_now now = {.n_slot = w->p.n_slot, .n_busy = w->n_active};
    for (int i = 0; i < w->p.n_slot; i++) {
        ft_session_info info;
        ft_session_get_info(w->slot[i].s, &info);
        now.state_bytes += info.state_bytes;
        now.scratch_bytes = info.scratch_bytes;
    }
    ft_model_checkpoint_stats(w->p.model, &now.checkpoint);
    metrics_engine(w->p.metrics, &now);
}

/* A job that never got a slot. */
static void refuse(job *j, ft_status st, const ft_error *err)
{
    job_end(j, NULL, 0, st, err, clock_now());
    job_unref(j);
}

static void end_slot(worker *w, slot *s)
{
    ft_generate_stats stats;
    ft_error err = {0};
    ft_status st = ft_generation_end(s->g, &stats, &err);
    if (s->failure.code != FT_OK) {
        st = s->failure.code;
        err = s->failure;
    }
    metrics_job(w->p.metrics, &stats, s->n_cached, s->queue_seconds);
    job_end(s->j, &stats, s->n_cached, st, &err, clock_now());
    job_unref(s->j);
    *s = (slot){.s = s->s, .used = clock_now()};
}

/* ---- Beginnings ---- */

static bool on_prompt(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    job_set_progress(ctx, (int)done, (int)total);
    return true;
}

static slot *choose(worker *w, const job_work *work)
{
    for (int i = 0; i < w->p.n_slot; i++) {
        slot *s = &w->slot[i];
        w->view[i] = (slot_view){.busy = s->g != NULL, .used = s->used};
        w->view[i].tok = ft_session_tokens(s->s, &w->view[i].n_tok);
    }
    int at = slots_choose(w->view, w->p.n_slot, work->tok, work->n_tok);
    return at < 0 ? NULL : &w->slot[at];
}

/* The job in a free slot; the reference is taken. */
static void begin(worker *w, job *j)
{
    double now = clock_now();
    const job_work *work = job_start(j, now);
    slot *s = choose(w, work);
    ft_error err = {0};
    ft_status st = ft_session_reuse(s->s, work->tok, work->n_tok, &s->n_cached, &err);
    if (st == FT_OK) {
        ft_generate_params p = work->req->gen;
        p.mark = work->mark;
        p.n_mark = work->n_mark;
        p.on_prompt = on_prompt;
        p.on_prompt_ctx = j;
        job_set_progress(j, 0, work->n_tok - s->n_cached);
        st = ft_generation_begin(&s->g, s->s, work->tok + s->n_cached, work->n_tok - s->n_cached,
                                 &p, &err);
    }
    if (st != FT_OK) {
        refuse(j, st, &err);
        return;
    }
    s->j = j;
    s->queue_seconds = job_queued(j);
    w->active[w->n_active++] = s;
}

/* ---- One turn of the loop ---- */

/* Has the job to end? Its age is looked at here, wherever it waits. */
static bool must_end(worker *w, job *j)
{
    double now = clock_now(), limit = job_limit(j);
    if (atomic_load(&w->cancel_all))
        job_cancel(j, JOB_CANCEL_STOPPING);
    if (limit > 0 && job_age(j, now) > limit)
        job_cancel(j, JOB_CANCEL_TIME);
    if (job_stalled(j, now) > w->p.write_seconds)
        job_cancel(j, JOB_CANCEL_SLOW);
    return job_cancelled(j) != JOB_CANCEL_NONE;
}

static bool must_end_queued(job *j, void *ctx)
{
    return must_end(ctx, j);
}

static void sweep_queue(worker *w)
{
    for (job *j; (j = queue_take(w->p.queue, must_end_queued, w)) != NULL;)
        refuse(j, FT_CANCELLED, NULL);
}

static void fill_slots(worker *w)
{
    int before = w->n_active;
    for (job *j; w->n_active < w->p.n_slot && (j = queue_pop(w->p.queue)) != NULL;)
        begin(w, j);
    if (w->n_active != before)
        tell_metrics(w);
}

/* A reader that looks at single tokens sees what they cost, too. */
static void tell(slot *s)
{
    ft_generate_stats stats;
    if (!job_get_work(s->j)->req->token_details)
        return;
    ft_generation_get_stats(s->g, &stats);
    job_tell(s->j, &stats, s->n_cached, clock_now());
}

/* The tokens of a step go to the job's reader. */
static void deliver(worker *w, slot *s)
{
    ft_token t;
    bool any = false;
    while (ft_generation_poll(s->g, &t)) {
        any = true;
        metrics_token(w->p.metrics, t.kind);
        if (s->failure.code == FT_OK)
            s->failure.code = job_put(s->j, &t, &s->failure);
    }
    if (!any)
        return;
    tell(s);
    job_post(s->j);
}

static bool has_ended(worker *w, slot *s)
{
    ft_generation_state st = ft_generation_get_state(s->g);
    return s->failure.code != FT_OK || st == FT_GENERATION_DONE || st == FT_GENERATION_FAILED ||
           must_end(w, s->j);
}

static void end_slots(worker *w)
{
    int n = 0, before = w->n_active;
    for (int i = 0; i < before; i++) {
        slot *s = w->active[i];
        if (has_ended(w, s))
            end_slot(w, s);
        else
            w->active[n++] = s;
    }
    w->n_active = n;
    if (n != before)
        tell_metrics(w);
}

/* One forward call for all jobs with room; false: there is none. */
static bool step(worker *w)
{
    int n = 0;
    double now = clock_now();
    for (int i = 0; i < w->n_active; i++)
        if (job_has_room(w->active[i]->j, now))
            w->step[n++] = w->active[i]->g;
    if (n == 0)
        return false;
    ft_error err = {0};
    ft_status st = ft_batch_step(w->batch, w->step, n, &err);
    for (int i = 0; i < w->n_active; i++) {
        slot *s = w->active[i];
        if (st != FT_OK)
            s->failure = err;
        deliver(w, s);
    }
    return true;
}

static void *run(void *ctx)
{
    worker *w = ctx;
    tell_metrics(w);
    for (;;) {
        sweep_queue(w);
        fill_slots(w);
        if (w->n_active == 0) {
            if (queue_is_closed(w->p.queue) && queue_length(w->p.queue) == 0)
                break;
            queue_wait(w->p.queue, 0.5);
            continue;
        }
        if (!step(w))
            clock_sleep(0.005); /* every reader is behind */
        end_slots(w);
    }
    atomic_store(&w->done, true);
    return NULL;
}

/* ---- Life ---- */

static ft_status create_sessions(worker *w, ft_error *err)
{
    ft_batch_params bp = ft_batch_params_default();
    bp.n_session = w->p.n_slot;
    bp.n_chunk = w->p.session.n_chunk;
    bp.n_ctx = w->p.session.n_ctx;
    TRY(ft_batch_create(&w->batch, w->p.model, &bp, err));
    ft_session_params sp = w->p.session;
    sp.batch = w->batch;
    for (int i = 0; i < w->p.n_slot; i++)
        TRY(ft_session_create(&w->slot[i].s, w->p.model, &sp, err));
    w->n_ctx = ft_session_n_ctx(w->slot[0].s);
    return FT_OK;
}

ft_status worker_create(worker **out, const worker_params *p, ft_error *err)
{
    *out = NULL;
    worker *w = mem_zalloc(sizeof *w);
    if (!w)
        return err_set(err, FT_NOMEM, "worker");
    w->p = *p;
    size_t n = (size_t)p->n_slot;
    w->slot = mem_calloc(n, sizeof *w->slot);
    w->active = mem_calloc(n, sizeof *w->active);
    w->step = mem_calloc(n, sizeof *w->step);
    w->view = mem_calloc(n, sizeof *w->view);
    ft_status st = w->slot && w->active && w->step && w->view
                       ? create_sessions(w, err)
                       : err_set(err, FT_NOMEM, "worker: %d slots", p->n_slot);
    if (st == FT_OK) {
        w->started = pthread_create(&w->thread, NULL, run, w) == 0;
        if (!w->started)
            st = err_set(err, FT_DEVICE, "worker: the engine's thread does not start");
    }
    if (st != FT_OK) {
        worker_free(w);
        return st;
    }
    *out = w;
    return FT_OK;
}

void worker_drain(worker *w, double seconds, const atomic_bool *hurry)
{
    double end = clock_now() + seconds;
    while (!atomic_load(&w->done)) {
        if (clock_now() >= end || atomic_load(hurry))
            atomic_store(&w->cancel_all, true);
        clock_sleep(0.01);
    }
}

void worker_free(worker *w)
{
    if (!w)
        return;
    if (w->started)
        pthread_join(w->thread, NULL);
    for (int i = 0; w->slot && i < w->p.n_slot; i++)
        ft_session_free(w->slot[i].s);
    ft_batch_free(w->batch);
    mem_free(w->view);
    mem_free(w->step);
    mem_free(w->active);
    mem_free(w->slot);
    mem_free(w);
}

int worker_n_ctx(const worker *w)
{
    return w->n_ctx;
}
