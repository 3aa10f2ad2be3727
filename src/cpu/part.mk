# SPDX-License-Identifier: Apache-2.0
# The CPU backend: one object per kernel with the flags of its instruction set, and one probe.
CPU_ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
CPU_SOURCES := cpu share walk fold check pool decode_c
ifeq ($(CPU_ARCH),x86_64)
CPU_SOURCES += probe_x86 decode_avx2 decode_avx512 decode_avx512bf16
else ifeq ($(CPU_ARCH),aarch64)
CPU_SOURCES += probe_aarch64 decode_neon
else
CPU_SOURCES += probe_none
endif

# -ffp-contract: a * b + c may be one fused instruction. Vectors are passed only between functions
# that are inlined, so the ABI that -Wpsabi warns of is never used.
# Sanitized: everything is inlined into one function, which takes clang minutes above -O1.
CPU_KERNEL_FLAGS := $(if $(SAN),-O1,-O2) -ffp-contract=fast -Wno-psabi
CFLAGS_src_cpu_decode_c := $(CPU_KERNEL_FLAGS)
CFLAGS_src_cpu_decode_neon := $(CPU_KERNEL_FLAGS)
CFLAGS_src_cpu_decode_avx2 := $(CPU_KERNEL_FLAGS) -mavx2 -mfma -mf16c
CFLAGS_src_cpu_decode_avx512 := $(CPU_KERNEL_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl \
    -mavx2 -mfma -mf16c -mprefer-vector-width=512
CFLAGS_src_cpu_decode_avx512bf16 := $(CFLAGS_src_cpu_decode_avx512) -mavx512bf16
CFLAGS_src_cpu_fold := -O3

$(eval $(call cc_rule,src/cpu,-D_GNU_SOURCE -Iinclude -Isrc))
LIB_OBJ += $(patsubst %,$(BUILD)/src/cpu/%.o,$(CPU_SOURCES))
