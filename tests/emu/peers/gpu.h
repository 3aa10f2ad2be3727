/* gpu.h: a small host for other people's kernels: PTX in, launches and answers out, through any
 * library that exports the CUDA driver's functions (libcuda-emu.so, or libcuda.so.1 on a B200).
 *
 * Every failure prints a sentence and ends the program.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PEERS_GPU_H
#define PEERS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_PARAMS = 64, MAX_PARAM_BYTES = 256 };

struct kernel { /* one entry of a PTX text, with its declared parameters */
    void *function;
    char name[4096];
    int params;
    struct {
        uint32_t align, bytes;
        bool set;
        _Alignas(64) uint8_t value[MAX_PARAM_BYTES];
    } param[MAX_PARAMS];
};

/* For modelled times (EMU_TIMING): launches queue up, nothing is freed, copied back or filled with
 * more than zeros; gpu_sync answers at once. */
extern bool gpu_timing, gpu_no_pdl;
void gpu_drain(void);
void gpu_open(const char *library);
/* The first entry in STEM-1.ptx, STEM-2.ptx ... whose name contains `part`. */
void gpu_kernel(struct kernel *k, const char *stem, const char *part);
void gpu_print_params(const struct kernel *k);

uint64_t gpu_alloc(size_t bytes);
void gpu_free(uint64_t p);
void gpu_write(uint64_t to, const void *from, size_t bytes);
void gpu_read(void *to, uint64_t from, size_t bytes);

/* Parameter i gets these bytes; the rest of it is filled with 0xa5, as undefined bytes are. */
void gpu_param(struct kernel *k, int i, const void *value, size_t bytes);
void gpu_param_u32(struct kernel *k, int i, uint32_t v);
void gpu_param_f32(struct kernel *k, int i, float v);

struct gpu_map { /* bf16 or f32 tensor, 128-byte swizzle, innermost dimension first */
    bool f32;
    int rank;
    uint64_t address, dim[5], stride[5]; /* elements; stride[0] is 1 */
    uint32_t box[5];
};
void gpu_param_map(struct kernel *k, int i, const struct gpu_map *m);

struct gpu_launch {
    uint32_t grid[3], block, cluster, smem;
    bool pdl;
};
void gpu_launch(struct kernel *k, const struct gpu_launch *l);
/* Waits; the driver's answer, 0 when all went well. */
int gpu_sync(void);

#endif
