# oracle: truth, shared by tests and tools. It may see the public header and number formats, no more.
# Link $(ORACLE_LIB) before libgqa.a.
$(eval $(call cc_rule,oracle,-D_GNU_SOURCE -Iinclude))

ORACLE_LIB := $(BUILD)/liboracle.a
ALL += $(ORACLE_LIB)

$(ORACLE_LIB): $(patsubst %.c,$(BUILD)/%.o,$(wildcard oracle/*.c))
	@rm -f $@
	$(AR) rcs $@ $^
