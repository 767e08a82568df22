/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from a file, for spawn and attach: --config FILE, or ./.contrail.conf when there is one. */
#ifndef CT_CLI_CONFIG_H
#define CT_CLI_CONFIG_H

#include "cli/command.h"
#include "cli/record.h"

/* Like ct_options_parse. The words of the file come before those of the command line, which therefore override them. */
int ct_config_parse(const struct ct_command *command, int argc, char **argv, struct ct_record_options *options,
                    struct ct_operands *operands);

/* Where traces are written unless something else is said. */
#define CT_CONFIG_OUTPUT "./traces"
/* The output directory of ./.contrail.conf, or CT_CONFIG_OUTPUT; malloc'ed. NULL: no memory. Prints nothing. */
char *ct_config_output(void);

#endif
