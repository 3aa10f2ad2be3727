# tests: one program per tests/test_*.c. test_<x>.c may see src/<x>.h, the oracle and the API;
# internal.a is the library with its inner names.
$(eval $(call cc_rule,tests,-D_GNU_SOURCE -Iinclude -Ioracle))

TESTS += $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(ORACLE_LIB) $(BUILD)/internal.a
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) -o $@

# The emulator is of one part, and so is a process: Hopper's kernels in one of their own.
$(BUILD)/tests/test_relay_sm90: tests/part.mk $(BUILD)/tests/test_relay
	@printf '#!/bin/sh\nexec $(BUILD)/tests/test_relay emu:sm_90a gqa_decode_sm90_bf16_d128_g8\n' >$@
	@chmod +x $@
$(BUILD)/tests/test_corners_sm100: tests/part.mk $(BUILD)/tests/test_corners
	@printf '#!/bin/sh\nCORNERS=sm100 exec $(BUILD)/tests/test_corners\n' >$@
	@chmod +x $@
TESTS += $(BUILD)/tests/test_relay_sm90 $(BUILD)/tests/test_corners_sm100

# What builds for itself, without sanitizers, says the same in every build.
ifeq ($(SAN),)
TESTS += tests/test_header tests/test_neon tests/test_avx512 tests/test_dev tests/test_perfetto
endif

# The PTX of kernels that do not record reads no clock.
$(BUILD)/tests/test_untraced: tests/test_untraced $(CUDA_IMAGES)
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/test_untraced $(CUDA)\n' >$@
	@chmod +x $@
TESTS += $(BUILD)/tests/test_untraced

.SECONDARY: $(TESTS:%=%.o)
include tests/forms/forms.mk
