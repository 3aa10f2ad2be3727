# SPDX-License-Identifier: Apache-2.0
# The only build. Each folder owns its part.mk and names there what it makes; -I says who may
# include whom, so that an include against the arrows of docs/design.md does not compile.
#
#   make            everything this machine can build      make check    every test, one runner
#   make SAN=address,undefined check                       make lint     format, tidy, house rules
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
AR      ?= ar
BUILD   ?= build
PREFIX  ?= /usr/local
SAN     ?=
WARN    := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
OPT     ?= -O2 -g
CFLAGS_ALL = -std=c11 $(OPT) $(WARN) -fPIC -fvisibility=hidden -pthread -MMD -MP \
             $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) $(CFLAGS)
LDFLAGS_ALL = -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
LIBS    := -lm

# What the parts fill in.
ALL     :=# files that `make` builds
LIB_OBJ :=# objects of libgqa
TESTS   :=# test programs: plain lines, last line "N passed, N failed, N skipped"
CHECKS  :=# further targets of `make check`
LINT    :=# further targets of `make lint`

define cc_rule # $(1) source folder, $(2) include flags
$$(BUILD)/$(1)/%.o: $(1)/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_ALL) $(2) $$(CFLAGS_$$(subst /,_,$(1))_$$*) -c $$< -o $$@
endef

$(eval $(call cc_rule,src,-D_GNU_SOURCE -Iinclude -Isrc))
LIB_OBJ += $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/*.c))

# JSON comes from jansson, which only tools and examples link; the library is built all the same.
JANSSON := $(shell echo '\#include <jansson.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)

# src first: what is found there (NVCC) decides what others can make.
include $(wildcard src/*/part.mk) $(wildcard */part.mk)

ALL += $(BUILD)/libgqa.a $(BUILD)/libgqa.so

# One object in the archive, in which only gqa_* is left to be seen: no name of ours can collide with
# a name of the program that links it. Tests of inner files link internal.a, where all are.
OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy)
$(BUILD)/libgqa.a: $(LIB_OBJ)
	@rm -f $@
	$(CC) -r -nostdlib $^ -o $(BUILD)/libgqa.o
	$(OBJCOPY) --localize-hidden $(BUILD)/libgqa.o
	$(AR) rcs $@ $(BUILD)/libgqa.o

$(BUILD)/internal.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libgqa.so: $(LIB_OBJ)
	$(CC) -shared -Wl,-soname,libgqa.so.0 -Wl,--no-undefined $(LDFLAGS_ALL) $^ $(LIBS) -o $@
	@ln -sf libgqa.so $(BUILD)/libgqa.so.0

.PHONY: all check lint fmt clean install
all: $(ALL) $(TESTS)

# Tests find the emulator of this build, wherever their programs lie; another may be named.
check: all $(CHECKS)
	@GQA_CUDA_EMU="$${GQA_CUDA_EMU:-$(abspath $(BUILD))/libcuda-emu.so}" scripts/run-tests $(TESTS)

SOURCES = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh')

fmt:
	clang-format -i $(SOURCES)

lint: $(LINT)
	clang-format --dry-run --Werror $(SOURCES)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
