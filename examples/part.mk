# examples: a real model whose attention is gqa's. JSON comes from jansson, as in tools.
ifneq ($(JANSSON),)
$(eval $(call cc_rule,examples,-D_GNU_SOURCE -Iinclude -Isrc -Itools))
# The compiler may use vector instructions in the matrix products.
CFLAGS_examples_model := -O3
EXAMPLE_OBJ := $(addprefix $(BUILD)/,examples/model.o examples/cache.o examples/check.o \
                 tools/safetensors.o $(patsubst %.c,%.o,$(wildcard tools/space*.c)))
ALL   += $(BUILD)/generate
TESTS += $(BUILD)/test_generate

$(BUILD)/generate $(BUILD)/test_generate: $(BUILD)/%: $(BUILD)/examples/%.o $(EXAMPLE_OBJ) \
    $(BUILD)/libgqa.a
	$(CC) $(LDFLAGS_ALL) $^ -ljansson $(LIBS) -o $@

# The same model on the Blackwell kernels, in the emulator.
$(BUILD)/tests/test_emulated: $(BUILD)/with_nvcc examples/test_emulated $(BUILD)/generate $(if $(NVCC),$(BUILD)/libcuda-emu.so)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec examples/test_emulated $(BUILD) $(if $(NVCC),yes,no)\n' >$@
	@chmod +x $@
TESTS += $(BUILD)/tests/test_emulated
endif
