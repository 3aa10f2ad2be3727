# SPDX-License-Identifier: Apache-2.0
# The tensor-core forms of the Blackwell kernels alone: make forms; build/tests/forms/test_forms_sm100.
FORMS := $(BUILD)/tests/forms
FORM_NAMES := $(shell sed -n 's/^FORM(\(\w*\), *\(\w*\), *\(\w*\),.*)/forms_\1_d\2_g\3/p' tests/forms/forms.def)
FORM_PTX := $(if $(NVCC),$(FORM_NAMES:%=$(FORMS)/%.ptx))

form_word = $(word $(2),$(subst _, ,$(1)))
$(FORMS)/%.ptx: tests/forms/forms.cu $(wildcard src/cuda/*.cuh) src/cuda/args.h src/cuda/shape.h
	@mkdir -p $(@D)
	@$(NVCC) $(NVCC_FLAGS) $(NVCC_EXTRA) -gencode arch=compute_100f,code=compute_100f -DGQA_ARCH=100 -DGQA_KV=GQA_KV_$(call form_word,$*,2) \
	  -DGQA_HEAD_DIM=$(patsubst d%,%,$(call form_word,$*,3)) -DGQA_GROUP=$(patsubst g%,%,$(call form_word,$*,4)) -ptx $< -o $@
$(FORMS)/test_forms_sm100: tests/forms/test_forms_sm100.c tests/forms/forms.def $(ORACLE_LIB) $(BUILD)/internal.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -Iinclude -Ioracle -Isrc $< $(LDFLAGS_ALL) $(ORACLE_LIB) $(BUILD)/internal.a $(LIBS) -o $@

.PHONY: forms
forms: $(FORMS)/test_forms_sm100 $(FORM_PTX)

# What scripts/second-opinion tells of a launch, and its kernels: heads of 64, a ring of 3 stages.
OPINION := $(BUILD)/tests/opinion
$(OPINION)/launch: tests/opinion/launch.c src/cuda/args.h src/cuda/shape.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $< -o $@
$(OPINION)/gqa_decode_%_bf16_d64_g8.ptx: src/cuda/decode_%.cu tests/forms/forms.mk $(wildcard src/cuda/*.cuh) src/cuda/args.h src/cuda/shape.h
	@mkdir -p $(@D)
	@$(NVCC) $(NVCC_FLAGS) $(NVCC_EXTRA) -gencode arch=compute_100f,code=compute_100f -DGQA_ARCH=100 -DGQA_KV=GQA_KV_bf16 \
	  -DGQA_HEAD_DIM=64 -DGQA_GROUP=8 -DGQA_MOST_STAGES=3 -DGQA_KERNEL_NAME=$(basename $(@F)) -ptx $< -o $@
