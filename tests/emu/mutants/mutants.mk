# SPDX-License-Identifier: Apache-2.0
# Our kernels on small shapes in the emulator: for scripts/mutants and scripts/seeds-emu.
ALL += $(BUILD)/emu-scenario
$(BUILD)/emu-scenario: tests/emu/mutants/scenario.c $(BUILD)/liboracle.a $(BUILD)/libgqa.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -D_GNU_SOURCE -Iinclude -Ioracle $< $(LDFLAGS_ALL) $(BUILD)/liboracle.a $(BUILD)/libgqa.a $(LIBS) -ldl -o $@
TESTS += tests/emu/mutants/clean.sh
