/* SPDX-License-Identifier: Apache-2.0 */
/* contrail modules: lists the program and the libraries that a process has loaded, and their functions. */
#include "cli/command.h"
#include "cli/message.h"
#include "cli/reading.h"
#include "cli/record.h"
#include "symbols/demangle.h"
#include "trace/writer.h" /* JSON */
#include "base/json_write.h"
#include <contrail/process.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct modules_options {
    bool functions, json, mangled;
    const char *module;
};
static const struct ct_option option_table[] = {
    {"functions", 'f', CT_OPTION_FLAG, offsetof(struct modules_options, functions), NULL,
     "list all functions: address, size, name, module"},
    {"module", 'm', CT_OPTION_STRING, offsetof(struct modules_options, module), "GLOB",
     "only functions of modules whose file name or path matches (with --functions)"},
    CT_OPTION_MANGLED(struct modules_options),
    {"json", 0, CT_OPTION_FLAG, offsetof(struct modules_options, json), NULL, "print JSON"},
    {0},
};

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The name as reports show it, malloc'ed; NULL: out of memory. */
static char *name_of(const struct ct_process_symbol *symbol, bool mangled) {
    char *name = NULL;
    if (!symbol->name[0])
        return asprintf(&name, "%s+0x%" PRIx64, file_name(symbol->module), symbol->offset) < 0 ? NULL : name;
    if (!mangled)
        name = ct_demangle(symbol->name);
    return name ? name : strdup(symbol->name);
}

/* ---- text ---- */

static void print_module(const struct ct_process_module *module) {
    char size[CT_TEXT_SIZE], count[CT_TEXT_SIZE];
    printf("0x%016" PRIx64 "  %10s  %10s  %-40s  ", module->start, ct_text_size(size, module->end - module->start),
           ct_text_count(count, module->functions), module->build_id[0] ? module->build_id : "-");
    ct_message_print(stdout, module->path);
    putchar('\n');
}

static int print_symbol(const struct ct_process_symbol *symbol, bool mangled) {
    char *name = name_of(symbol, mangled);
    if (!name)
        return CT_ERR_NO_MEMORY;
    printf("0x%016" PRIx64 "  %8" PRIu64 "  ", symbol->address, symbol->length);
    ct_message_print(stdout, name);
    free(name);
    fputs("  ", stdout);
    ct_message_print(stdout, file_name(symbol->module));
    putchar('\n');
    return 0;
}

/* Prints executable memory that is not a module, and modules that are not hooked. */
static int print_left_alone(struct ct_process *process) {
    char size[CT_TEXT_SIZE], count[CT_TEXT_SIZE];
    struct ct_process_generated code = {.size = sizeof code};
    int status = ct_process_generated_code(process, &code);
    if (status)
        return status;
    puts("\n[vdso]: left alone when the process is recorded");
    if (code.mappings)
        printf("anonymous code (%s): %s mapping%s, %s, left alone\n",
               code.recorded ? "JIT, and the recorder's hooks" : "JIT", ct_text_count(count, code.mappings),
               code.mappings == 1 ? "" : "s", ct_text_size(size, code.bytes));
    return 0;
}

static int print_symbols(struct ct_process *process, const struct modules_options *options) {
    struct ct_process_symbol symbol = {.size = sizeof symbol};
    uint64_t position = 0;
    int status;
    printf("%-18s  %8s  %s\n", "ADDRESS", "SIZE", "FUNCTION  MODULE");
    while ((status = ct_process_next_symbol(process, options->module, &position, &symbol)) > 0)
        if ((status = print_symbol(&symbol, options->mangled)))
            break;
    return status;
}

static int print_modules(struct ct_process *process) {
    struct ct_process_module module = {.size = sizeof module};
    uint64_t position = 0;
    int status;
    printf("%-18s  %10s  %10s  %-40s  %s\n", "BASE", "SIZE", "FUNCTIONS", "BUILD-ID", "PATH");
    while ((status = ct_process_next_module(process, &position, &module)) > 0)
        print_module(&module);
    return status ? status : print_left_alone(process);
}

/* ---- JSON ---- */

static void write_address(struct ct_json *json, const char *key, uint64_t address) {
    char text[24]; /* as a string: JSON readers handle numbers up to 2^53 */
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    ct_json_string(json, key, text);
}

static void write_module(struct ct_json *json, const struct ct_process_module *module) {
    ct_json_begin(json, NULL, '{');
    ct_json_string(json, "path", module->path);
    ct_json_string(json, "build_id", module->build_id);
    write_address(json, "base", module->start);
    write_address(json, "bias", module->bias);
    ct_json_number(json, "size", module->end - module->start);
    ct_json_number(json, "functions", module->functions);
    ct_json_end(json, '}');
}

static int write_symbol(struct ct_json *json, const struct ct_process_symbol *symbol, bool mangled) {
    char *name = name_of(symbol, mangled);
    if (!name)
        return CT_ERR_NO_MEMORY;
    ct_json_begin(json, NULL, '{');
    write_address(json, "address", symbol->address);
    ct_json_number(json, "size", symbol->length);
    ct_json_string(json, "name", name);
    ct_json_string(json, "linkage_name", symbol->name);
    ct_json_string(json, "module", symbol->module);
    ct_json_end(json, '}');
    free(name);
    return 0;
}

static int write_symbols(struct ct_json *json, struct ct_process *process, const struct modules_options *options) {
    struct ct_process_symbol symbol = {.size = sizeof symbol};
    uint64_t position = 0;
    int status;
    while ((status = ct_process_next_symbol(process, options->module, &position, &symbol)) > 0)
        if ((status = write_symbol(json, &symbol, options->mangled)))
            break;
    return status;
}

static int write_modules(struct ct_json *json, struct ct_process *process) {
    struct ct_process_module module = {.size = sizeof module};
    uint64_t position = 0;
    int status;
    while ((status = ct_process_next_module(process, &position, &module)) > 0)
        write_module(json, &module);
    return status;
}

static int write_generated(struct ct_json *json, struct ct_process *process) {
    struct ct_process_generated code = {.size = sizeof code};
    int status = ct_process_generated_code(process, &code);
    if (status)
        return status;
    ct_json_begin(json, "anonymous_code", '{');
    ct_json_number(json, "mappings", code.mappings);
    ct_json_number(json, "bytes", code.bytes);
    ct_json_bool(json, "with_hooks", code.recorded);
    ct_json_end(json, '}');
    return 0;
}

static int write_all(struct ct_process *process, int pid, const struct modules_options *options) {
    struct ct_json json = {.lines = true};
    ct_json_begin(&json, NULL, '{');
    ct_json_signed(&json, "pid", pid);
    ct_json_begin(&json, options->functions ? "functions" : "modules", '[');
    int status = options->functions ? write_symbols(&json, process, options) : write_modules(&json, process);
    ct_json_end(&json, ']');
    if (!status && !options->functions)
        status = write_generated(&json, process);
    ct_json_end(&json, '}');
    return ct_reading_put_json(&json, status);
}

static int run_modules(int argc, char **argv) {
    struct modules_options options = {0};
    struct ct_operands operands;
    struct ct_process *process;
    char error[512];
    int pid, code = ct_options_parse(&ct_command_modules, argc, argv, &options, &operands);
    if (code >= 0)
        return code;
    if (!ct_record_parse_pid("modules", operands.at[0], &pid))
        return CT_EXIT_USAGE;
    int status = ct_process_open(&process, pid, error, sizeof error);
    if (status)
        return ct_message_fail(status, error);
    if (options.json)
        status = write_all(process, pid, &options);
    else
        status = options.functions ? print_symbols(process, &options) : print_modules(process);
    code = status ? ct_message_fail(status, ct_process_error(process)) : ct_message_finish();
    ct_process_close(process);
    return code;
}

const struct ct_command ct_command_modules = {
    .name = "modules",
    .group = CT_GROUP_LOOK,
    .run = run_modules,
    .summary = "list the program and the libraries of a process, and their functions",
    .operands = "PID",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Lists every file with code that process PID has loaded: its address, size and build-id, and the number of "
        "its known functions. The process is not stopped.\n\n"
        "Names of functions are shown as `contrail report` shows them: C++ and Rust names are demangled, functions "
        "without a name are module+0xoffset.",
    .options = option_table,
    .notes = "Exit status:\n"
             "  0, 69 when there is no such process or it cannot be examined, 77 when you have no permission to",
    .examples = "contrail modules 4711\n"
                "contrail modules 4711 --functions --module 'libc.so*'\n"
                "contrail modules 4711 --json | jq '.modules[].path'",
};
