# SPDX-License-Identifier: Apache-2.0
# The data paths of the emulator: number formats, tensor maps, matrix operations. Plain functions on
# flat memory, tested without the rest of the emulator.
EMU_DATA := num num_math reduce tensormap tensormap_hw tensormap_copy matrix warp_matrix desc tmem umma umma_run wgmma forms
EMU_DATA_OBJ := $(EMU_DATA:%=$(BUILD)/emu/%.o)
# The lint of float equality and contraction does not apply: these files compute exact results.
CFLAGS_emu_num := -O3 -ffp-contract=off
CFLAGS_emu_num_math := -O3 -ffp-contract=off
# Products are exact in f32 for normal numbers: fma and mul+add agree (matrix.c).
CFLAGS_emu_matrix := -O3 -ffp-contract=fast
CFLAGS_emu_warp_matrix := -O3
CFLAGS_emu_desc := -O3
CFLAGS_emu_umma := -O3
CFLAGS_emu_umma_run := -O3
CFLAGS_emu_wgmma := -O3

EMU_UNIT := num tensormap tensormap_hw tensormap_modes warp_matrix umma umma_scaled umma_sparse tmem wgmma forms
EMU_UNIT_TESTS := $(EMU_UNIT:%=$(BUILD)/tests/emu/test_%)
TESTS += $(EMU_UNIT_TESTS)

$(EMU_UNIT_TESTS): $(BUILD)/tests/emu/test_%: tests/emu/test_%.c tests/emu/unit.h tests/emu/layouts.h $(EMU_DATA_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -ffp-contract=off -Iemu $< $(EMU_DATA_OBJ) $(LDFLAGS_ALL) $(LIBS) -o $@

# Tests that run programs: all of the emulator but the driver's interface.
EMU_RUN := tcgen05 litmus values timing growth
EMU_RUN_TESTS := $(EMU_RUN:%=$(BUILD)/tests/emu/test_%)
EMU_RUN_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out emu/ptx_emu.c emu/cuda%,$(wildcard emu/*.c)))
TESTS += $(EMU_RUN_TESTS)

$(EMU_RUN_TESTS): $(BUILD)/tests/emu/test_%: tests/emu/test_%.c tests/emu/unit.h tests/emu/layouts.h $(EMU_RUN_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -ffp-contract=off -Iemu $< $(EMU_RUN_OBJ) $(LDFLAGS_ALL) $(LIBS) -o $@

# A program of the CUDA runtime, in the place of nvcc's output.
EMU_CALLS := $(patsubst %,$(BUILD)/tests/emu/%,test_runtime test_driver test_graphs test_dsl test_handles)
TESTS += $(EMU_CALLS)
$(BUILD)/tests/emu/test_dsl: LDFLAGS_ALL += -rdynamic
$(EMU_CALLS): $(BUILD)/tests/emu/%: tests/emu/%.c tests/emu/unit.h | $(BUILD)/libcuda-emu.so
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE $< $(LDFLAGS_ALL) $(LIBS) -ldl -o $@

# A host for other people's kernels; scripts/peers-ptx runs it.
PEERS_SRC := $(wildcard tests/emu/peers/*.c)
$(BUILD)/peers: $(PEERS_SRC) $(wildcard tests/emu/peers/*.h) emu/cuda_abi.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -Iemu $(PEERS_SRC) $(LDFLAGS_ALL) $(LIBS) -ldl -o $@

ALL += $(BUILD)/ptx-emu
$(BUILD)/ptx-emu: $(BUILD)/emu/ptx_emu.o $(EMU_RUN_OBJ)
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -o $@
TESTS += tests/emu/command.sh tests/emu/static_runtime.sh
