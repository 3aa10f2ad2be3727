# fuzz: libFuzzer targets, with AddressSanitizer and UndefinedBehaviorSanitizer. They need clang and
# its runtime (Debian: clang, libclang-rt-14-dev). Everything is compiled once more, by a second make
# into $(BUILD)/fuzz, since coverage is counted by the compiler; without GPU images, and the CPU's
# kernels without optimisation: with sanitizers clang takes minutes for each otherwise. Loops that it
# then does not vectorise, though a pragma asks for it, are no mistake here.
#
#   make fuzz FUZZ_SECONDS=60        every target so long; new inputs stay in $(BUILD)/fuzz/found
#   make fuzz FUZZ_SEED=1            the same inputs again (as far as addresses allow); 0: others
FUZZ_SECONDS ?= 60
FUZZ_SEED    ?= 0
FUZZ_TARGETS := fuzz_safetensors fuzz_step fuzz_problem fuzz_ptx
CFLAGS_fuzz_fuzz_ptx := -Iemu
FUZZ_SAN     := fuzzer-no-link,address,undefined
FUZZ_BUILD   := $(BUILD)/fuzz

$(eval $(call cc_rule,fuzz,-D_GNU_SOURCE -Iinclude -Itools))

ifeq ($(FUZZING),yes)
FUZZ_TOOLS := $(addprefix $(BUILD)/tools/,safetensors.o step.o space_cpu.o flags.o)
$(BUILD)/fuzz_ptx: $(BUILD)/fuzz/fuzz_ptx.o $(EMU_RUN_OBJ)
	$(CC) -pthread -fsanitize=fuzzer,address,undefined $^ $(LIBS) -o $@
$(addprefix $(BUILD)/,$(filter-out fuzz_ptx,$(FUZZ_TARGETS))): $(BUILD)/%: $(BUILD)/fuzz/%.o $(FUZZ_TOOLS) \
    $(BUILD)/libgqa.a
	$(CC) -pthread -fsanitize=fuzzer,address,undefined $^ -ljansson $(LIBS) -o $@
else ifeq ($(SAN),)
TESTS += $(BUILD)/test_fuzz
endif

.PHONY: fuzz fuzz-build
fuzz-build:
	$(MAKE) FUZZING=yes NVCC= CPU_KERNEL_FLAGS='-O0 -Wno-psabi' BUILD=$(FUZZ_BUILD) CC=clang \
	    SAN=$(FUZZ_SAN) OPT='-O1 -g' CFLAGS='-fno-sanitize-recover=all -Wno-pass-failed' \
	    $(addprefix $(FUZZ_BUILD)/,$(FUZZ_TARGETS))

fuzz:
	@if fuzz/run --can-fuzz; then $(MAKE) fuzz-build; fi
	fuzz/run $(FUZZ_BUILD) $(FUZZ_SECONDS) $(FUZZ_SEED)

# The bounded run of the tests; it builds its targets when it runs, so that `make` need not. Where
# clang or its runtime is missing it says so and skips. CI gives it FUZZ_SECONDS=20 per target.
$(BUILD)/test_fuzz: fuzz/part.mk
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nfuzz/run --can-fuzz && make -s BUILD=%s fuzz-build\n' '$(BUILD)' > $@
	@printf 'exec fuzz/run %s "$${FUZZ_SECONDS:-5}" 1\n' '$(FUZZ_BUILD)' >> $@
	@chmod +x $@
