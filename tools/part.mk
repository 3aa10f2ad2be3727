# tools: the command line. JSON comes from jansson (Debian: libjansson-dev), which only tools and
# examples link; without it they are left out and the library is built all the same.
ifeq ($(JANSSON),)
$(info jansson.h is not here (Debian: libjansson-dev): the tools and examples are left out)
else
ALL   += $(BUILD)/gqa
TESTS += $(BUILD)/test_safetensors $(BUILD)/test_cli $(BUILD)/test_trace
endif

$(eval $(call cc_rule,tools,-D_GNU_SOURCE -Iinclude -Ioracle))

TOOLS_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tools/test_%,$(wildcard tools/*.c)))

# The page of `gqa trace` is embedded.
$(BUILD)/tools/trace_html.o: tools/trace_view.html

$(BUILD)/gqa: $(TOOLS_OBJ) $(ORACLE_LIB) $(BUILD)/libgqa.a
	$(CC) $(LDFLAGS_ALL) $^ -ljansson $(LIBS) -o $@

$(BUILD)/test_safetensors: $(BUILD)/tools/test_safetensors.o $(BUILD)/tools/safetensors.o
	$(CC) $(LDFLAGS_ALL) $^ -ljansson $(LIBS) -o $@

$(BUILD)/test_trace: $(BUILD)/tools/test_trace.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/trace*.c)) $(BUILD)/libgqa.a \
    | $(BUILD)/gqa $(if $(NVCC),$(BUILD)/libcuda-emu.so)
	$(CC) $(LDFLAGS_ALL) $^ -ljansson $(LIBS) -o $@

$(BUILD)/test_cli: $(BUILD)/tools/test_cli.o $(BUILD)/tools/safetensors.o $(ORACLE_LIB) \
    $(BUILD)/libgqa.a | $(BUILD)/gqa
	$(CC) $(LDFLAGS_ALL) $^ -ljansson $(LIBS) -o $@
