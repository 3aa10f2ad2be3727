# SPDX-License-Identifier: Apache-2.0
# bench: the floor kernel that tools/space_cuda.c embeds (nothing of sm_90a in it: later GPUs assemble
# its PTX), and the sweep behind the planner's numbers.
include src/cuda/nvcc.mk

STREAM := $(BUILD)/bench/stream
STREAM_IMAGES := $(if $(NVCC),$(STREAM).ptx $(STREAM).cubin)

$(STREAM).ptx: bench/stream.cu bench/part.mk $(wildcard src/cuda/*.cuh) src/cuda/args.h
	@mkdir -p $(@D)
	@echo "nvcc stream"
	@$(NVCC) $(NVCC_FLAGS) -gencode arch=compute_90,code=compute_90 -DGQA_ARCH=90 -ptx $< -o $@
$(STREAM).cubin: $(STREAM).ptx
	@$(PTXAS) $(PTXAS_FLAGS) -arch=sm_90 $< -o $@

$(BUILD)/tools/space_cuda.o: CFLAGS_ALL += -DSTREAM_IMAGE='"$(STREAM).cubin"' -DSTREAM_TEXT='"$(STREAM).ptx"' -DSTREAM_SIZED='"$(if $(NVCC),1,0)"'
$(BUILD)/tools/space_cuda.o: $(BUILD)/with_nvcc $(STREAM_IMAGES)

$(eval $(call cc_rule,bench,-D_GNU_SOURCE -Iinclude -Itools))
ALL += $(BUILD)/sweep
$(BUILD)/sweep: $(BUILD)/bench/sweep.o $(BUILD)/tools/space_cuda.o $(BUILD)/libgqa.a
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -o $@

# Modelled times: the emulator's timing model over the benchmark's shapes (docs/traces.md).
ALL += $(BUILD)/modelled
$(BUILD)/modelled: $(BUILD)/bench/modelled.o $(BUILD)/tools/space_cuda.o $(BUILD)/libgqa.a
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -o $@

# What bulk copies cost, on a GPU and in the model: two of its constants (emu/timing_part.c).
ALL += $(BUILD)/copies $(if $(NVCC),$(BUILD)/bench/copies.ptx)
$(BUILD)/bench/copies.ptx: bench/copies.cu bench/part.mk $(wildcard src/cuda/*.cuh) src/cuda/args.h
	@mkdir -p $(@D)
	@echo "nvcc copies"
	@$(NVCC) $(NVCC_FLAGS) -gencode arch=compute_90,code=compute_90 -DGQA_ARCH=90 -ptx $< -o $@
$(BUILD)/copies: $(BUILD)/bench/copies.o
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -ldl -o $@
