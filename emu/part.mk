# SPDX-License-Identifier: Apache-2.0
# The PTX emulator: libcuda-emu.so (the CUDA driver's interface), ptx-emu (the command), their tests.
# It is an instrument of this machine: EMU_ARCH lets the lane loops use its vectors.
EMU_ARCH ?= $(if $(filter x86_64,$(shell uname -m)),-march=native,)
EMU_FLAGS := -O3 -ffp-contract=off -fno-strict-aliasing -fno-math-errno $(EMU_ARCH)
$(eval $(call cc_rule,emu,-D_GNU_SOURCE -Iemu $(EMU_FLAGS)))
include emu/datapath.mk

EMU_MAIN := emu/ptx_emu.c
EMU_CUDA := $(wildcard emu/cuda*.c)
EMU_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(EMU_MAIN) $(EMU_CUDA),$(wildcard emu/*.c)))
EMU_CUDA_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(EMU_CUDA))

ALL += $(BUILD)/libcuda-emu.so
# -Bsymbolic: its calls reach its own functions where NVIDIA's runtime is in the process too.
$(BUILD)/libcuda-emu.so: emu/libcuda.map $(EMU_OBJ) $(EMU_CUDA_OBJ)
	$(CC) -shared -Wl,-soname,libcuda-emu.so -Wl,--no-undefined -Wl,-Bsymbolic -Wl,--version-script=$< $(LDFLAGS_ALL) \
		$(filter %.o,$^) $(LIBS) -ldl -o $@

include tests/emu/truth/truth.mk
include tests/emu/mutants/mutants.mk
