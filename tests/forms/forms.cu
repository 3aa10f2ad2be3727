/* SPDX-License-Identifier: Apache-2.0
 * Both products of a Blackwell kernel by themselves, one CTA, one tile: K, Q, V and P as plain rows
 * in global memory; S^T and O^T as plain rows back. Shapes, descriptors and layouts are the decode
 * kernel's own functions, so this says of the very forms it uses whether a GPU takes them. */
#define GQA_O_STAGES   1
#define GQA_O_PER_TILE 0
#define GQA_L_STAGES   0

#include "decode_sm100.cuh"
#include "decode_sm100_finish.cuh"
#include "decode_sm100_multiply.cuh"

struct forms_args {
    const unsigned char *k, *q, *v,
        *p;       /* [TILE][HEAD_DIM], [N][HEAD_DIM], [TILE][HEAD_DIM], [TILE][N] */
    float *s, *o; /* [TILE][N], [HEAD_DIM][N] */
};

enum { PIECE_BYTES = 16, ROW = HEAD_DIM * KV_BYTES };

/* 16 bytes from global to shared memory. */
DEV void put(uint32_t to, const unsigned char *from) {
    const float4 x = *(const float4 *)(const void *)from;
    st_shared_v4(to, x.x, x.y, x.z, x.w);
}

/* Rows of HEAD_DIM elements as slabs of one SPAN each, `slab_rows` rows apart. */
DEV void put_slabs(uint32_t smem, const unsigned char *rows, int count) {
    for (int i = threadIdx.x; i < count * ROW / PIECE_BYTES; i += blockDim.x) {
        const int row = i / (ROW / PIECE_BYTES), at = i % (ROW / PIECE_BYTES) * PIECE_BYTES;
        put(swizzled(smem + at / SPAN * (count * SPAN) + row * SPAN + at % SPAN, SPAN_SWIZZLE),
            rows + row * ROW + at);
    }
}

/* V, stage by stage as the loader leaves it: V_TOKENS tokens of V_ROWS elements. */
DEV void put_v(const struct cta *c, const unsigned char *rows) {
    for (int i = threadIdx.x; i < TILE * ROW / PIECE_BYTES; i += blockDim.x) {
        const int token = i / (ROW / PIECE_BYTES), at = i % (ROW / PIECE_BYTES) * PIECE_BYTES;
        const int slab = at / SPAN, stage = token / V_TOKENS * V_BLOCKS + slab / V_SLABS;
        const uint32_t smem = smem_addr(c->smem->kv[stage]) + slab % V_SLABS * SLAB_BYTES;
        put(swizzled(smem + token % V_TOKENS * SPAN + at % SPAN, SPAN_SWIZZLE),
            rows + token * ROW + at);
    }
}

DEV void put_p(const struct cta *c, const unsigned char *rows) {
    const uint32_t smem = smem_addr(c->smem->side.p[0]);
    for (int i = threadIdx.x; i < P_BYTES / PIECE_BYTES; i += blockDim.x)
        put(swizzled(smem + i * PIECE_BYTES, P_SWIZZLE), rows + i * PIECE_BYTES);
}

/* Everything that this phase's writers left is visible to the MMAs, and the other way round. */
DEV void turn(void) {
    fence_proxy_async();
    tcgen05_fence_before_thread_sync();
    __syncthreads();
    tcgen05_fence_after_thread_sync();
}

DEV void wait(uint32_t bar, int parity) {
    __syncwarp();
    mbarrier_wait(bar, parity);
    tcgen05_fence_after_thread_sync();
}

/* N accumulator columns of this thread's lane to a row. */
DEV void take(const struct cta *c, int column, float *row) {
    float x[N];
    tmem_load(x, c->tmem + (c->warp << 21) + column, N);
    for (int n = 0; row && n < N; n++)
        row[n] = x[n];
}

DEV void scores(const struct cta *c, uint32_t bar) {
    if (threadIdx.x)
        return;
    for (int chunk = 0; chunk < K_STAGES; chunk++)
        score_stage(c, c->tmem + S_COLUMN, chunk, 0, chunk);
    tcgen05_commit(bar);
}

DEV void sums(const struct cta *c, uint32_t bar) {
    const struct cover all = {0, TILE};
    if (threadIdx.x)
        return;
    for (int token = 0, stage = 0; token < TILE; token += V_TOKENS)
        for (int block = 0; block < V_BLOCKS; block++, stage++)
            weigh_stage(c, c->tmem + O_COLUMN + block * N, stage, 0, token, &all, true);
    tcgen05_commit(bar);
}

extern "C" __global__ void __launch_bounds__(128, 1)
    gqa_forms(const __grid_constant__ struct forms_args args) {
    extern __shared__ __align__(1024) unsigned char raw[];
    struct cta c = {};
    c.smem = (struct smem *)raw;
    c.warp = threadIdx.x / 32;
    c.lane = threadIdx.x % 32;
    const uint32_t bar = smem_addr(c.smem->side.mail_full);
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncwarp();
    if (c.warp == 0)
        tcgen05_alloc(smem_addr(&c.smem->side.tmem), TMEM_COLUMNS);
    put_slabs(smem_addr(c.smem->kv[0]), args.k, TILE);
    put_slabs(smem_addr(c.smem->side.q[0]), args.q, N);
    put_p(&c, args.p);
    turn();
    c.tmem = c.smem->side.tmem;
    scores(&c, bar);
    wait(bar, 0);
    take(&c, S_COLUMN, args.s + threadIdx.x * N);
    put_v(&c, args.v);
    turn();
    sums(&c, bar);
    wait(bar, 1);
    for (int block = 0; block < V_BLOCKS; block++) {
        const int d = element_of(threadIdx.x);
        take(&c, O_COLUMN + block * N, d < 0 ? NULL : args.o + (block * V_ROWS + d) * N);
    }
    turn();
    if (c.warp == 0)
        tcgen05_dealloc(c.tmem, TMEM_COLUMNS);
}
