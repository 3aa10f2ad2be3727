/* SPDX-License-Identifier: Apache-2.0
 * The CPU's memory: the process's own, in huge pages where they are to be had; the clock; and the
 * floor, a read of the same bytes in four interleaved streams per thread, 256 bytes from each in
 * turn. One stream is not enough: it leaves half of a core's outstanding misses unused, and how
 * well the hardware prefetches it varies from hour to hour; four are fastest and steady. */
#include "space.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_THREADS = 256, STREAMS = 4, PIECE = 256 };

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gqa_status cpu_open(const char *device, struct space *space, struct gqa_error *err) {
    (void)device, (void)space, (void)err;
    return GQA_OK;
}

static void cpu_close(struct space *space) {
    (void)space;
}

static void *cpu_take(struct space *space, size_t bytes) {
    (void)space;
    void *memory =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (bytes >= 4 << 20)
        madvise(memory, bytes, MADV_HUGEPAGE); /* a wish; without it all works the same */
    return memory;
}

static void cpu_give(struct space *space, void *memory, size_t bytes) {
    (void)space;
    if (memory)
        munmap(memory, bytes ? bytes : 1);
}

static gqa_status cpu_copy(struct space *space, void *to, const void *from, size_t bytes,
                           struct gqa_error *err) {
    (void)space, (void)err;
    if (bytes)
        memcpy(to, from, bytes);
    return GQA_OK;
}

static gqa_status cpu_time(struct space *space, space_step step, void *context, int64_t first,
                           int64_t runs, double *seconds, struct gqa_error *err) {
    const clockid_t clock =
        space->clock == SPACE_CPU_TIME ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const double start = now(clock);
    for (int64_t i = 0; i < runs; i++) {
        const gqa_status status = step(context, first + i, space->stream, err);
        if (status)
            return status;
    }
    *seconds = now(clock) - start;
    return GQA_OK;
}

/* --- The floor ------------------------------------------------------------------------------ */

typedef uint64_t line __attribute__((vector_size(64)));

/* Sum of `bytes`, a multiple of STREAMS * PIECE. The sum keeps the loads alive. */
static inline __attribute__((always_inline)) uint64_t read_streams(const void *base, size_t bytes) {
    const size_t quarter = bytes / STREAMS / sizeof(line);
    const line *const from = base;
    line sum[STREAMS] = {{0}};
    for (size_t at = 0; at < quarter; at += PIECE / sizeof(line))
        for (size_t s = 0; s < STREAMS; s++)
            for (size_t i = 0; i < PIECE / sizeof(line); i++)
                sum[i % STREAMS] += from[s * quarter + at + i];
    const line all = sum[0] + sum[1] + sum[2] + sum[3];
    uint64_t total = 0;
    for (size_t i = 0; i < sizeof(line) / sizeof(uint64_t); i++)
        total += all[i];
    return total;
}

typedef uint64_t (*reader)(const void *base, size_t bytes);

static uint64_t read_plain(const void *base, size_t bytes) {
    return read_streams(base, bytes);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const void *base, size_t bytes) {
    return read_streams(base, bytes);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(const void *base, size_t bytes) {
    return read_streams(base, bytes);
}

static reader best_reader(void) {
    return __builtin_cpu_supports("avx512f") ? read_avx512
           : __builtin_cpu_supports("avx2")  ? read_avx2
                                             : read_plain;
}
#else
static reader best_reader(void) {
    return read_plain;
}
#endif

/* Where readers wait until all of them are there, or until one could not be started. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { GATE_SHUT, GATE_OPEN, GATE_GONE } state;
};

struct read_job {
    const struct space_pool *pool;
    struct gate *gate;
    reader read;
    clockid_t clock;
    int thread, threads;
    int64_t first, runs;
    double seconds;
    uint64_t sum;
};

static void gate_set(struct gate *gate, int state) {
    pthread_mutex_lock(&gate->mutex);
    gate->state = state;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

static bool gate_wait(struct gate *gate) {
    pthread_mutex_lock(&gate->mutex);
    while (gate->state == GATE_SHUT)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    const bool is_open = gate->state == GATE_OPEN;
    pthread_mutex_unlock(&gate->mutex);
    return is_open;
}

/* Each thread reads its share of every entry, without waiting for the others in between: what is
 * measured is memory, not the waking of threads. */
static void *read_share(void *argument) {
    struct read_job *job = argument;
    const struct space_pool *pool = job->pool;
    const size_t unit = STREAMS * PIECE, units = pool->bytes / unit;
    const size_t begin = units * (size_t)job->thread / (size_t)job->threads * unit;
    const size_t end = units * (size_t)(job->thread + 1) / (size_t)job->threads * unit;
    if (!gate_wait(job->gate))
        return NULL;
    const double start = now(job->clock);
    for (int64_t i = 0; i < job->runs; i++) {
        const char *entry =
            (const char *)pool->base + (size_t)((job->first + i) % pool->entries) * pool->stride;
        job->sum += job->read(entry + begin, end - begin);
    }
    job->seconds = now(job->clock) - start;
    return NULL;
}

static volatile uint64_t sink; /* where sums go, so that no compiler drops the reading */

static gqa_status cpu_read(struct space *space, const struct space_pool *pool, int threads,
                           int64_t first, int64_t runs, double *seconds, struct gqa_error *err) {
    const clockid_t clock =
        space->clock == SPACE_CPU_TIME ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, GATE_SHUT};
    struct read_job jobs[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    int started = 1;
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    for (int i = 0; i < threads; i++)
        jobs[i] =
            (struct read_job){pool, &gate, best_reader(), clock, i, threads, first, runs, 0, 0};
    while (started < threads && !pthread_create(&ids[started], NULL, read_share, &jobs[started]))
        started++;
    gate_set(&gate, started == threads ? GATE_OPEN : GATE_GONE);
    read_share(&jobs[0]);
    *seconds = 0;
    for (int i = 0; i < started; i++) {
        if (i)
            pthread_join(ids[i], NULL);
        *seconds = jobs[i].seconds > *seconds ? jobs[i].seconds : *seconds;
        sink += jobs[i].sum;
    }
    if (started == threads)
        return GQA_OK;
    err->status = GQA_ERR_MEMORY;
    strcpy(err->message, "a thread could not be started");
    return GQA_ERR_MEMORY;
}

const struct space_kind space_cpu = {
    .prefix = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .take = cpu_take,
    .give = cpu_give,
    .put = cpu_copy,
    .get = cpu_copy,
    .time = cpu_time,
    .read = cpu_read,
};
