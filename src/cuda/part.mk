# SPDX-License-Identifier: Apache-2.0
# GPU kernels: one PTX and one image per line of instances.def (.cu -> nvcc -> .ptx -> ptxas ->
# .cubin), embedded by kernels.c. Without nvcc the library is built with the rows but no images.
# The portable kernels' image is a fat binary of cubins for every generation, so that none is
# compiled at run time: Hopper and Blackwell take them for what their own kernels do not do.
#   make ONLY="sm80 bf16_d128"   only kernels whose name contains one of these, and the helpers
#   make NVCC=/path/to/nvcc      which compiler;  make NVCC=  none
include src/cuda/nvcc.mk
ONLY  ?=

CUDA := $(BUILD)/src/cuda
CUDA_NAMES := $(shell sed -n -e 's/^GQA_INSTANCE(\(\w*\), *\(\w*\), *\(\w*\), *\(\w*\)).*/gqa_decode_\1_\2_d\3_g\4/p' \
                -e 's/^GQA_HELPERS(\(\w*\)).*/gqa_helpers_\1/p' src/cuda/instances.def)
CUDA_TRACED := $(shell sed -n -e 's/^GQA_TRACED(\(\w*\), *\(\w*\), *\(\w*\), *\(\w*\)).*/gqa_decode_\1_\2_d\3_g\4_trace/p' \
                 -e 's/^GQA_TRACED_HELPERS(\(\w*\)).*/gqa_helpers_\1_trace/p' src/cuda/instances.def)
# Of names $(1), those that contain a word of $(2).
cuda_containing = $(strip $(foreach n,$(1),$(if $(strip $(foreach w,$(2),$(findstring $(w),$(n)))),$(n))))
CUDA_BUILT := $(if $(NVCC),$(if $(ONLY),$(call cuda_containing,$(CUDA_NAMES),$(ONLY) helpers),$(CUDA_NAMES)))
# Of the traced rows those whose name contains a word of TRACES; the rest have no image.
TRACES ?= sm100_bf16_d128 helpers_sm100
CUDA_TRACED_BUILT := $(if $(NVCC),$(if $(filter all,$(TRACES)),$(CUDA_TRACED),$(call cuda_containing,$(CUDA_TRACED),$(TRACES))))
# Their cubins cost as much again, and a driver assembles PTX too: with TRACES=all they are made, to
# see what spills. That is a warning, not an error: two that have 128 registers for 32 rows and a
# recorder (sm100o d64 g32, sm100u d128 g32) spill 8 and 24 bytes where they mask a part's last tile.
CUDA_PTX   := $(CUDA_BUILT) $(CUDA_TRACED_BUILT)
CUDA_CUBIN := $(CUDA_BUILT) $(if $(filter all,$(TRACES)),$(CUDA_TRACED_BUILT))
CUDA_IMAGES := $(CUDA_PTX:%=$(CUDA)/%.ptx) $(CUDA_CUBIN:%=$(CUDA)/%.cubin)

# Words of a name: gqa decode sm90 bf16 d128 g8.
cuda_word   = $(word $(2),$(subst _, ,$(1)))
cuda_number = $(subst s,,$(subst m,,$(subst d,,$(subst o,,$(subst u,,$(call cuda_word,$(1),3))))))
cuda_portable = 80 90 100 120
# sm_100f: one image for the whole family, B200 (sm_100) and B300 (sm_103).
cuda_arch   = $(cuda_number)$(if $(filter 80,$(cuda_number)),,$(if $(filter 100,$(cuda_number)),f,a))
cuda_source = src/cuda/$(if $(findstring helpers,$(1)),combine,decode_$(call cuda_word,$(1),3)).cu
cuda_macros = -DGQA_ARCH=$(cuda_number) $(if $(filter %_trace,$(1)),-DGQA_TRACE=1) $(if $(findstring helpers,$(1)),,-DGQA_KERNEL_NAME=$(1) \
  -DGQA_KV=GQA_KV_$(call cuda_word,$(1),4) -DGQA_HEAD_DIM=$(patsubst d%,%,$(call cuda_word,$(1),5)) \
  -DGQA_GROUP=$(patsubst g%,%,$(call cuda_word,$(1),6)))

# $(1) architecture, $(2) the PTX, $(3) the image, $(4) the name if not portable. No kernel may spill
# on the GPU that it is made for; of the portable ones, those for 512-wide heads spill 4 to 28 bytes
# elsewhere than on sm_80.
cuda_assemble = $(PTXAS) $(if $(filter 90 100 120,$(1)),-lineinfo,$(if $(filter %_trace,$(4)),\
  $(filter-out -Werror,$(PTXAS_FLAGS)),$(PTXAS_FLAGS))) $(PTXAS_EXTRA) -arch=sm_$(1) $(2) -o $(3)
# $(1) the PTX, $(2) the fat binary
cuda_fat = $(foreach a,$(cuda_portable),$(call cuda_assemble,$(a),$(1),$(2).$(a)) &&) \
  $(FATBINARY) --compress-all --create=$(2) $(foreach a,$(cuda_portable),--image3=kind=elf$(comma)sm=$(a)$(comma)file=$(2).$(a)) && \
  rm -f $(foreach a,$(cuda_portable),$(2).$(a))
comma := ,
define cuda_rules # $(1) name
$(CUDA)/$(1).ptx: $(call cuda_source,$(1)) $(wildcard src/cuda/*.cuh) src/cuda/args.h src/cuda/shape.h $(if $(filter %_trace,$(1)),src/cuda/trace.h src/cuda/trace.def)
	@mkdir -p $$(@D)
	@echo "nvcc $(1)"
	@$(NVCC) $(NVCC_FLAGS) $(NVCC_EXTRA) -gencode arch=compute_$(call cuda_arch,$(1)),code=compute_$(call cuda_arch,$(1)) \
	  $(call cuda_macros,$(1)) -ptx $$< -o $$@
$(CUDA)/$(1).cubin: $(CUDA)/$(1).ptx
	@$(if $(filter 80,$(cuda_number)),$(call cuda_fat,$$<,$$@),$(call cuda_assemble,$(call cuda_arch,$(1)),$$<,$$@,$(1)))
endef
$(foreach n,$(CUDA_PTX),$(eval $(call cuda_rules,$(n))))

# Whether this folder was built with nvcc: what differs without depends on it. Once it was, it may
# not be built without, or one make would take the kernels from under another's tests.
$(BUILD)/with_nvcc: FORCE_IMAGES
	@mkdir -p $(@D)
	@was=$$(cat $@ 2>/dev/null); is=$(if $(NVCC),yes,no); if [ "$$was $$is" = 'yes no' ]; then \
	  echo "$(BUILD) has GPU kernels, and now there is no nvcc: say NVCC=/path/to/nvcc, or BUILD= another folder" >&2; exit 1; fi; \
	  [ "$$was" = $$is ] || echo $$is >$@

# Which rows have images: kernels.c asks per row.
$(CUDA)/images.h: $(BUILD)/with_nvcc src/cuda/instances.def src/cuda/part.mk FORCE_IMAGES
	@mkdir -p $(@D)
	@{ $(foreach n,$(CUDA_NAMES) $(CUDA_TRACED),echo "#define GQA_HAS_$(n) $(if $(filter $(n),$(CUDA_CUBIN)),1,$(if $(filter $(n),$(CUDA_PTX)),PTX,0))";) } > $@.new
	@cmp -s $@.new $@ || mv $@.new $@; rm -f $@.new
	$(if $(NVCC),,@echo "no nvcc: GPU kernels are listed but have no images; set NVCC=")
.PHONY: FORCE_IMAGES

$(eval $(call cc_rule,src/cuda,-D_GNU_SOURCE -Iinclude -Isrc -Isrc/cuda -I$(CUDA) -DGQA_IMAGES=\"$(CUDA)\"))
CUDA_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/cuda/*.c))
LIB_OBJ += $(CUDA_OBJ)
$(CUDA)/kernels.o: $(CUDA)/images.h $(CUDA_IMAGES)
$(BUILD)/src/api.o: CFLAGS_ALL += -DGQA_WITH_CUDA
LIBS += -ldl

.PHONY: kernels
kernels: $(CUDA_IMAGES)
