/* SPDX-License-Identifier: Apache-2.0
 * A thread pool of one mutex, two condition variables and two counters. Threads join a job only
 * under the mutex and while it is open, so nothing of a job is touched after pool_run returns. */
#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct job {
    void (*part)(void *arg, int64_t i, int worker);
    void *arg;
    int64_t parts;
    int workers;
};

struct pool {
    int threads; /* started; the caller is one more */
    int spin_us;
    pthread_mutex_t owner; /* held by the caller whose job runs */
    pthread_mutex_t lock;  /* guards everything below but the atomics */
    pthread_cond_t opened, left;
    struct job job;
    bool is_open, stop;
    int inside;
    atomic_uint generation; /* of the job; polled without the lock */
    atomic_int polling;
    _Atomic int64_t next;
    struct worker {
        struct pool *pool;
        int index;
        pthread_t thread;
    } workers[];
};

static void work(struct pool *pool, const struct job *job, int worker) {
    for (;;) {
        const int64_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= job->parts)
            return;
        job->part(job->arg, i, worker);
    }
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Poll for up to spin_us until the generation is no longer `seen`. */
static void poll_generation(struct pool *pool, unsigned seen) {
    if (!pool->spin_us)
        return;
    atomic_fetch_add(&pool->polling, 1);
    const int64_t until = now_us() + pool->spin_us;
    do
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen)
                goto out;
            relax();
        }
    while (now_us() < until);
out:
    atomic_fetch_sub(&pool->polling, 1);
}

static void *worker_main(void *arg) {
    const struct worker *self = arg;
    struct pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        poll_generation(pool, seen);
        pthread_mutex_lock(&pool->lock);
        while (!pool->stop && atomic_load(&pool->generation) == seen)
            pthread_cond_wait(&pool->opened, &pool->lock);
        seen = atomic_load(&pool->generation);
        if (pool->stop)
            break;
        if (!pool->is_open || self->index >= pool->job.workers) {
            pthread_mutex_unlock(&pool->lock);
            continue;
        }
        const struct job job = pool->job;
        pool->inside++;
        pthread_mutex_unlock(&pool->lock);
        work(pool, &job, self->index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->inside == 0)
            pthread_cond_signal(&pool->left);
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct pool *pool_create(int threads, int spin_us) {
    const int extra = threads - 1;
    struct pool *pool = calloc(1, sizeof *pool + (size_t)extra * sizeof *pool->workers);
    if (!pool)
        return NULL;
    pool->spin_us = spin_us;
    pthread_mutex_init(&pool->owner, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->opened, NULL);
    pthread_cond_init(&pool->left, NULL);

    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 0; i < extra; i++) {
        struct worker *w = &pool->workers[i];
        *w = (struct worker){.pool = pool, .index = i + 1};
        if (pthread_create(&w->thread, NULL, worker_main, w))
            break;
        pool->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pool->threads < extra) {
        pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void pool_destroy(struct pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->threads; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->owner);
    free(pool);
}

void pool_run(struct pool *pool, void (*part)(void *arg, int64_t i, int worker), void *arg,
              int64_t parts, int workers, bool wake) {
    if (!pool || parts < 2 || workers < 2 || (!wake && !atomic_load(&pool->polling)) ||
        pthread_mutex_trylock(&pool->owner)) {
        for (int64_t i = 0; i < parts; i++)
            part(arg, i, 0);
        return;
    }
    const struct job job = {part, arg, parts, workers};
    pthread_mutex_lock(&pool->lock);
    pool->job = job;
    pool->is_open = true;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->generation, 1);
    if (wake)
        pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);

    work(pool, &job, 0);

    pthread_mutex_lock(&pool->lock);
    pool->is_open = false;
    while (pool->inside)
        pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->owner);
}
