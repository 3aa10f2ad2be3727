/* SPDX-License-Identifier: Apache-2.0
 * check_tables: look at every length, offset and page number before anything is computed. */
#include "cpu.h"
#include "status.h"

static gqa_status check_queries(const struct gqa_problem *p, const struct gqa_tensors *t,
                                struct gqa_error *err) {
    if (!p->q_ragged)
        return GQA_OK;
    if (t->cu_seqlens_q[0] != 0)
        return fail(err, GQA_ERR_ARGUMENT, "cu_seqlens_q[0] is %d, expected 0", t->cu_seqlens_q[0]);
    for (int64_t b = 0; b < p->batch; b++) {
        const int64_t n = (int64_t)t->cu_seqlens_q[b + 1] - t->cu_seqlens_q[b];
        if (n < 0 || n > p->q_tokens)
            return fail(err, GQA_ERR_ARGUMENT,
                        "cu_seqlens_q gives sequence %lld %lld query tokens, expected 0 to %d",
                        (long long)b, (long long)n, p->q_tokens);
    }
    if (t->cu_seqlens_q[p->batch] > p->q_total)
        return fail(err, GQA_ERR_ARGUMENT, "cu_seqlens_q[%lld] is %d, but q_total is %lld",
                    (long long)p->batch, t->cu_seqlens_q[p->batch], (long long)p->q_total);
    return GQA_OK;
}

/* All of them before any is followed: the last one is the length of page_indices. */
static gqa_status check_pages(const struct gqa_problem *p, const struct gqa_tensors *t,
                              struct gqa_error *err) {
    if (p->paging != GQA_PAGED_CSR || !p->batch)
        return GQA_OK;
    if (t->page_indptr[0] != 0)
        return fail(err, GQA_ERR_ARGUMENT, "page_indptr[0] is %d, expected 0", t->page_indptr[0]);
    for (int64_t i = 0; i < p->kv_batch; i++)
        if (t->page_indptr[i + 1] < t->page_indptr[i])
            return fail(err, GQA_ERR_ARGUMENT,
                        "page_indptr[%lld] is %d and the next is %d; expected ascending from 0",
                        (long long)i, t->page_indptr[i], t->page_indptr[i + 1]);
    return GQA_OK;
}

/* The pages of one sequence, and the tokens that they can hold. */
struct pages {
    const int32_t *numbers;
    int64_t count;
};

static struct pages pages_of(const struct gqa_problem *p, const struct gqa_tensors *t,
                             int64_t entry) {
    if (p->paging == GQA_CONTIGUOUS)
        return (struct pages){NULL, 0};
    if (p->paging == GQA_PAGED_TABLE)
        return (struct pages){t->block_table + entry * p->table_stride, p->table_stride};
    const int32_t first = t->page_indptr[entry];
    return (struct pages){t->page_indices + first, t->page_indptr[entry + 1] - first};
}

static gqa_status check_sequence(const struct gqa_problem *p, const struct gqa_tensors *t,
                                 int64_t b, struct gqa_error *err) {
    const int64_t entry = t->batch_index ? t->batch_index[b] : b;
    if (entry < 0 || entry >= p->kv_batch)
        return fail(err, GQA_ERR_ARGUMENT,
                    "sequence %lld lives in cache entry %lld, expected 0 to %lld", (long long)b,
                    (long long)entry, (long long)p->kv_batch - 1);
    const struct pages pages = pages_of(p, t, entry);
    int64_t len = p->kv_len;
    if (t->kv_lens) {
        len = t->kv_lens[b];
    } else if (p->paging == GQA_PAGED_CSR) {
        const int last = t->last_page_len[b];
        if (pages.count ? last < 1 || last > p->page_size : last != 0)
            return fail(err, GQA_ERR_ARGUMENT,
                        "last_page_len[%lld] is %d with %lld pages of %d tokens", (long long)b,
                        last, (long long)pages.count, p->page_size);
        len = pages.count ? (pages.count - 1) * p->page_size + last : 0;
    }
    if (len < 0 || len > p->kv_len)
        return fail(err, GQA_ERR_ARGUMENT, "sequence %lld has %lld tokens, expected 0 to %lld",
                    (long long)b, (long long)len, (long long)p->kv_len);
    if (p->paging == GQA_CONTIGUOUS)
        return GQA_OK;
    const int64_t used = (len + p->page_size - 1) / p->page_size;
    if (used > pages.count)
        return fail(err, GQA_ERR_ARGUMENT,
                    "sequence %lld has %lld tokens, but only %lld pages of %d", (long long)b,
                    (long long)len, (long long)pages.count, p->page_size);
    for (int64_t i = 0; i < used; i++)
        if (pages.numbers[i] < 0 || (p->num_pages && pages.numbers[i] >= p->num_pages))
            return fail(err, GQA_ERR_ARGUMENT,
                        "page %lld of sequence %lld is number %d; the pool has %lld pages",
                        (long long)i, (long long)b, pages.numbers[i], (long long)p->num_pages);
    return GQA_OK;
}

gqa_status cpu_check_tables(const struct gqa_problem *p, const struct gqa_tensors *t,
                            struct gqa_error *err) {
    gqa_status status = check_queries(p, t, err);
    status = status ? status : check_pages(p, t, err);
    for (int64_t b = 0; b < p->batch && !status; b++)
        status = check_sequence(p, t, b, err);
    return status;
}
