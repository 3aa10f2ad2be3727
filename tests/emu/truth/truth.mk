# SPDX-License-Identifier: Apache-2.0
# The emulator against what an H200 answered: needs nvcc for the programs' PTX, else it is skipped.
TRUTH := tests/emu/truth
TRUTH_PTX := $(if $(NVCC),$(patsubst $(TRUTH)/%.cu,$(BUILD)/truth/%.ptx,$(wildcard $(TRUTH)/*.cu)))
CUDA_INCLUDE ?= $(if $(NVCC),$(dir $(NVCC))../include)

$(BUILD)/truth/%.ptx: $(TRUTH)/%.cu $(TRUTH)/truth.cuh
	@mkdir -p $(@D)
	$(NVCC) -w -gencode arch=compute_90a,code=compute_90a -ptx $< -o $@

$(BUILD)/truth/truth: $(TRUTH)/truth.c $(TRUTH)/programs.def
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -isystem $(CUDA_INCLUDE) $< $(LDFLAGS_ALL) -lm -ldl -o $@

# The test itself: a script, so that the part and the paths are set where the runner calls it.
$(BUILD)/tests/test_truth: $(BUILD)/with_nvcc $(if $(NVCC),$(BUILD)/truth/truth $(TRUTH_PTX) $(BUILD)/libcuda-emu.so)
	@mkdir -p $(@D)
	@printf '%s\n' '#!/bin/sh' $(if $(NVCC),\
	  'EMU_PART=sm_90a exec $(BUILD)/truth/truth check $(BUILD)/libcuda-emu.so $(BUILD)/truth $(TRUTH)/recorded',\
	  'echo "skipped: no nvcc to make the PTX of the truth programs"; echo "0 passed, 0 failed, 1 skipped"') >$@
	@chmod +x $@
TESTS += $(BUILD)/tests/test_truth
