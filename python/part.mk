# SPDX-License-Identifier: Apache-2.0
# python: nothing to build. The tests need numpy, and say so where there is none. A sanitized
# library cannot be loaded by a python that is not.
ifeq ($(SAN),)
PYTHON ?= $(firstword $(foreach p,python3 /usr/bin/python3,$(shell $(p) -c 'import numpy' 2>/dev/null && echo $(p))) python3)
TESTS += $(BUILD)/test_python
$(BUILD)/test_python: python/part.mk $(BUILD)/libgqa.so
	@printf '#!/bin/sh\nGQA_LIBRARY=%s exec %s python/test_gqa.py\n' $(BUILD)/libgqa.so $(PYTHON) > $@
	@chmod +x $@
endif
