/* SPDX-License-Identifier: Apache-2.0
 * The commands of tools/gqa.c; each is defined in the file of its name. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "flags.h"

extern const struct command cmd_info, cmd_plan, cmd_decode, cmd_verify, cmd_bench, cmd_trace;

#endif
