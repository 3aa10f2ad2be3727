# SPDX-License-Identifier: Apache-2.0
$(eval $(call cc_rule,emu,-D_GNU_SOURCE -Iemu))
include emu/datapath.mk
