/* SPDX-License-Identifier: Apache-2.0
 * The kernel for AVX-512 F, BW, DQ and VL. */
#include "avx512.inc.c"

#define OPS_NAME cpu_ops_avx512

#include "decode.inc.c"
#include "decode_ops.inc.c"
