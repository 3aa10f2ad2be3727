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
CPU_KERNEL_FLAGS := $(if $(SAN)$(EMULATED),-O1,-O2) -ffp-contract=fast -Wno-psabi
CFLAGS_src_cpu_decode_c := $(CPU_KERNEL_FLAGS)
CFLAGS_src_cpu_decode_neon := $(CPU_KERNEL_FLAGS)
CFLAGS_src_cpu_decode_avx2 := $(CPU_KERNEL_FLAGS) -mavx2 -mfma -mf16c
CFLAGS_src_cpu_decode_avx512 := $(CPU_KERNEL_FLAGS) -mavx512f -mavx512bw -mavx512dq -mavx512vl \
    -mavx2 -mfma -mf16c -mprefer-vector-width=512
CFLAGS_src_cpu_decode_avx512bf16 := $(CFLAGS_src_cpu_decode_avx512) -mavx512bf16
CFLAGS_src_cpu_fold := -O3

# EMULATED=1: the AVX-512 kernels with their intrinsics in plain C, on a machine that lacks them.
ifdef EMULATED
CPU_SOURCES := $(filter-out probe_x86,$(CPU_SOURCES))
CFLAGS_src_cpu_decode_avx512 := $(CFLAGS_src_cpu_decode_avx2) -Itests/avx512 '-DKEEP(x)=(void)(x)'
CFLAGS_src_cpu_decode_avx512bf16 := $(CFLAGS_src_cpu_decode_avx512)
$(eval $(call cc_rule,tests/avx512,-D_GNU_SOURCE -Iinclude -Isrc -Isrc/cpu))
LIB_OBJ += $(BUILD)/tests/avx512/probe.o
endif

$(eval $(call cc_rule,src/cpu,-D_GNU_SOURCE -Iinclude -Isrc))
LIB_OBJ += $(patsubst %,$(BUILD)/src/cpu/%.o,$(CPU_SOURCES))

# The kernels that this machine cannot run, on the case table: 64-bit ARM under qemu-user, AVX-512
# emulated. `make check` calls them by way of tests/test_neon and tests/test_avx512. Their -O1 warns
# of other things than the real build, which is the one that must be clean.
NEON_CC ?= aarch64-linux-gnu-gcc

.PHONY: check-neon check-avx512
check-neon:
	@$(MAKE) --no-print-directory NVCC= OPT=-O1 CFLAGS=-Wno-error CC=$(NEON_CC) BUILD=$(BUILD)/aarch64 SAN= \
	    $(BUILD)/aarch64/tests/test_cpu
	QUICK=1 qemu-aarch64 -L /usr/aarch64-linux-gnu $(BUILD)/aarch64/tests/test_cpu

check-avx512:
	@$(MAKE) --no-print-directory NVCC= OPT=-O1 CFLAGS=-Wno-error EMULATED=1 BUILD=$(BUILD)/avx512 SAN= \
	    $(BUILD)/avx512/tests/test_cpu
	QUICK=1 $(BUILD)/avx512/tests/test_cpu
