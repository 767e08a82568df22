/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and results, from detail records: see arguments.h. */
#include "trace/arguments.h"
#include "isa/machine.h"
#include "symbols/library_calls.h"
#include "symbols/lookup.h"
#include "symbols/parameters.h"
#include "trace/value_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPEN = 32 }; /* modules whose debug information is open */

struct module {
    bool looked;
    struct ct_parameters *parameters; /* NULL: there is no debug information */
};

struct ct_argument_reader {
    struct ct_trace *trace;
    struct ct_lookup *lookup;
    struct ct_constants *constants;
    struct module *modules; /* as in the trace */
    size_t open;
    struct ct_trace_detail detail;
};

int ct_argument_reader_open(struct ct_argument_reader **out, struct ct_trace *trace, const char *const *directories) {
    struct ct_argument_reader *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return CT_ERR_NO_MEMORY;
    r->trace = trace;
    r->lookup = ct_lookup_create(&(struct ct_lookup_options){.directories = directories, .cache_bytes = 4096});
    r->modules = calloc(ct_trace_module_count(trace) + 1, sizeof *r->modules);
    r->constants = r->lookup ? ct_constants_open(trace, r->lookup) : NULL;
    if (!r->constants || !r->modules) {
        ct_argument_reader_close(r);
        return CT_ERR_NO_MEMORY;
    }
    *out = r;
    return 0;
}

void ct_argument_reader_close(struct ct_argument_reader *r) {
    if (!r)
        return;
    for (size_t i = 0; r->modules && i < ct_trace_module_count(r->trace); i++)
        ct_parameters_close(r->modules[i].parameters);
    ct_constants_close(r->constants);
    ct_lookup_destroy(r->lookup);
    free(r->modules);
    free(r);
}

/* ---- signatures ---- */

static struct module *module_of(struct ct_argument_reader *r, size_t process, uint64_t function,
                                const struct ct_trace_module **info) {
    for (size_t i = 0; i < ct_trace_module_count(r->trace); i++) {
        *info = ct_trace_module_at(r->trace, i);
        if ((*info)->process == process && (*info)->id == function >> 32)
            return &r->modules[i];
    }
    return NULL;
}

static void open_module(struct ct_argument_reader *r, struct module *module, const struct ct_trace_module *info) {
    module->looked = true;
    struct ct_lookup_module *found = ct_lookup_module(r->lookup, info->path, info->build_id);
    if (!found || ct_lookup_module_state(found) != CT_LOOKUP_FOUND || r->open == MAX_OPEN)
        return;
    const char *path = ct_lookup_module_lines(found);
    if (*path && ct_parameters_open(&module->parameters, path) == 0)
        r->open++;
}

/* Functions that the compiler has made from others, with parameters of its own choice. A function without a name may be
 * one. */
static bool is_clone(const char *name) {
    static const char *const marks[] = {".isra.", ".constprop.", ".part.", ".cold"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(name, marks[i]))
            return true;
    return !*name;
}

/* Without a build-id the file may be a different one: the names must agree. */
static bool is_believed(const struct ct_trace_module *info, const struct ct_trace_function *function,
                        const struct ct_signature *signature) {
    size_t length = strcspn(function->linkage_name, ".");
    return *info->build_id || (*signature->name && strncmp(function->linkage_name, signature->name, length) == 0 &&
                               length == strcspn(signature->name, "."));
}

/* NULL: not known, or of another machine (NULL: of any). */
static const struct ct_signature *signature_of(struct ct_argument_reader *r, size_t process, uint64_t id,
                                               const struct ct_machine *machine) {
    const struct ct_trace_module *info;
    const struct ct_trace_function *function = ct_trace_function(r->trace, process, id);
    struct module *module = function ? module_of(r, process, id, &info) : NULL;
    if (!module)
        return NULL;
    if (!module->looked)
        open_module(r, module, info);
    bool fits = module->parameters && (!machine || ct_parameters_machine(module->parameters) == machine);
    const struct ct_signature *signature =
        fits ? ct_parameters_find(module->parameters, function->offset, is_clone(function->linkage_name)) : NULL;
    return signature && is_believed(info, function, signature) ? signature : NULL;
}

bool ct_argument_reader_has(struct ct_argument_reader *r, size_t process, uint64_t function, const char *name) {
    const struct ct_signature *signature = signature_of(r, process, function, NULL);
    for (size_t i = 0; signature && i < signature->count; i++)
        if (!strcmp(signature->parameters[i].name, name))
            return true;
    return !signature && r->open == MAX_OPEN; /* its module may not have been looked at */
}

/* ---- values ---- */

static void show_registers(const struct ct_type *type, const struct ct_value_place *place,
                           const struct ct_memory *memory, struct ct_argument *out) {
    const struct ct_trace_detail *detail = memory->detail;
    uint8_t bytes[sizeof place->pieces * sizeof *detail->vectors] = {0};
    size_t size = place->piece_size;
    for (unsigned i = 0; i < place->piece_count; i++) {
        unsigned piece = place->pieces[i];
        if (piece < CT_PIECE_VECTOR)
            memcpy(bytes + size * i, &detail->registers[piece], size);
        else if (detail->has_vectors)
            memcpy(bytes + size * i, detail->vectors[piece - CT_PIECE_VECTOR], size);
        else if (piece - CT_PIECE_VECTOR < detail->real_count && size <= sizeof *detail->reals)
            memcpy(bytes + size * i, &detail->reals[piece - CT_PIECE_VECTOR], size);
        else {
            ct_value_unknown(out);
            return;
        }
    }
    size_t have = size * place->piece_count;
    ct_value_show(type, bytes, have < type->size ? have : (size_t)type->size, memory, out);
}

/* Shows what an address points to, when that is on the recorded part of the stack. */
static void show_pointed(const struct ct_type *type, uint64_t address, const struct ct_memory *memory,
                         struct ct_argument *out) {
    const struct ct_trace_detail *detail = memory->detail;
    uint64_t from = address - detail->stack_pointer;
    ct_value_pointer(address, out);
    if (address < detail->stack_pointer || from >= detail->stack_size || detail->stack_size - from < type->size ||
        type->incomplete)
        return;
    ct_value_show(type, detail->stack + from, (size_t)type->size, memory, out);
}

static void show_value(const struct ct_type *type, const struct ct_value_place *place, const struct ct_memory *memory,
                       struct ct_argument *out) {
    const struct ct_trace_detail *detail = memory->detail;
    size_t have = 0;
    switch (place->kind) {
    case CT_VALUE_PLACE_REGISTERS:
        show_registers(type, place, memory, out);
        break;
    case CT_VALUE_PLACE_STACK:
        if (place->offset < detail->stack_size)
            have = detail->stack_size - (size_t)place->offset;
        if (have)
            ct_value_show(type, detail->stack + place->offset, have < type->size ? have : (size_t)type->size, memory,
                          out);
        else
            ct_value_unknown(out);
        break;
    case CT_VALUE_PLACE_ADDRESS: /* of a result: memory has it now, but the record does not */
        if (detail->type == CT_TRACE_DETAIL_CALL)
            show_pointed(type, detail->registers[place->pieces[0]], memory, out);
        else
            ct_value_pointer(detail->registers[place->pieces[0]], out);
        break;
    case CT_VALUE_PLACE_CONSTANT:
        ct_value_show(type, (const uint8_t *)&place->constant, 8, memory, out);
        break;
    case CT_VALUE_PLACE_NOWHERE:
        out->kind = CT_VALUE_OTHER;
        strcpy(out->text, "{}");
        break;
    default:
        ct_value_unknown(out);
    }
}

/* ---- records ---- */

static const struct ct_type text_type = {.kind = CT_TYPE_TEXT, .size = 8};

static struct ct_argument *add_argument(struct ct_arguments *out, const char *name) {
    if (out->count == CT_ARGUMENT_LIMIT) {
        out->left_out = true;
        return NULL;
    }
    struct ct_argument *argument = &out->at[out->count++];
    argument->name = name;
    argument->real = 0;
    argument->number = 0;
    argument->string[0] = 0;
    return argument;
}

static bool is_printable(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (!bytes[i])
            return i > 0;
        if (bytes[i] == 0x7f || (bytes[i] < 0x20 && (bytes[i] < '\t' || bytes[i] > '\r')))
            return false;
    }
    return size > 0;
}

/* Is a text captured at the address? What was captured may be a structure (--structs). */
static bool is_captured(const struct ct_trace_detail *detail, uint64_t address) {
    for (unsigned i = 0; i < detail->piece_count && i < sizeof detail->pieces / sizeof *detail->pieces; i++) {
        size_t offset = detail->pieces[i].offset, size = detail->pieces[i].size;
        if (detail->pieces[i].address == address && offset + size <= sizeof detail->piece_bytes)
            return is_printable(detail->piece_bytes + offset, size);
    }
    return false;
}

/* A register that points to a text, though nothing says that it is an argument. */
static void show_pointer_and_text(uint64_t address, const struct ct_memory *memory, struct ct_argument *out) {
    struct ct_argument shown = {.name = ""};
    ct_value_show(&text_type, (const uint8_t *)&address, 8, memory, &shown);
    ct_value_pointer(address, out);
    size_t used = strlen(out->text);
    snprintf(out->text + used, sizeof out->text - used, " %.*s", (int)(sizeof out->text - used - 2), shown.text);
}

static void read_registers(const struct ct_memory *memory, struct ct_arguments *out) {
    const struct ct_trace_detail *detail = memory->detail;
    const struct ct_machine *machine = ct_machine_by_arch(detail->arch);
    if (!machine)
        return;
    if (detail->type == CT_TRACE_DETAIL_RETURN) {
        ct_value_pointer(detail->registers[0], add_argument(out, machine->registers[machine->result[0]]));
        return;
    }
    for (size_t i = 0; i < machine->argument_count; i++) {
        struct ct_argument *argument = add_argument(out, machine->registers[machine->call[i]]);
        if (memory->call && memory->call->texts & 1u << i)
            ct_value_show(&text_type, (const uint8_t *)&detail->registers[i], 8, memory, argument);
        else if (is_captured(detail, detail->registers[i]))
            show_pointer_and_text(detail->registers[i], memory, argument);
        else
            ct_value_pointer(detail->registers[i], argument);
    }
}

static void read_named(const struct ct_signature *signature, const struct ct_memory *memory, struct ct_arguments *out) {
    struct ct_argument *argument;
    out->named = true;
    if (memory->detail->type == CT_TRACE_DETAIL_RETURN) {
        if (signature->result->kind != CT_TYPE_VOID)
            show_value(signature->result, &signature->result_place, memory, add_argument(out, ""));
        return;
    }
    out->variadic = signature->variadic;
    for (size_t i = 0; i < signature->count; i++)
        if ((argument = add_argument(out, signature->parameters[i].name)))
            show_value(signature->parameters[i].type, &signature->parameters[i].place, memory, argument);
}

/* errno that the function has set: one that changed during the call. One that did not is older, unless the function is
 * known to set it when it fails. */
static void read_error(const struct ct_trace_detail *detail, const struct ct_library_call *call,
                       struct ct_arguments *out) {
    enum { CUT = 4095 };
    uint64_t result = detail->registers[0];
    bool minus_one = result == UINT64_MAX || result == UINT32_MAX;
    out->failed = minus_one || !result;
    if (detail->errno_after == CT_TRACE_NO_ERRNO || !detail->errno_after)
        return;
    bool known = detail->errno_before != CT_TRACE_NO_ERRNO;
    bool same = detail->errno_before == (detail->errno_after < CUT ? detail->errno_after : CUT);
    bool reports =
        call && ((call->failure == CT_FAILS_MINUS_ONE && minus_one) || (call->failure == CT_FAILS_NULL && !result));
    if ((known && !same) || reports)
        out->error = detail->errno_after;
}

static void read_by(const struct ct_signature *signature, const struct ct_memory *memory, struct ct_arguments *out) {
    out->count = 0;
    out->named = out->variadic = out->left_out = out->failed = false;
    out->error = 0;
    if (memory->detail->type == CT_TRACE_DETAIL_RETURN)
        read_error(memory->detail, memory->call, out);
    if (signature)
        read_named(signature, memory, out);
    else
        read_registers(memory, out);
}

void ct_arguments_by(const struct ct_signature *signature, const struct ct_trace_detail *detail,
                     struct ct_arguments *out) {
    read_by(signature, &(struct ct_memory){.detail = detail}, out);
}

/* NULL: the function is not of a C library, or not known. */
static const struct ct_library_call *library_call(struct ct_argument_reader *r, size_t process, uint64_t id) {
    const struct ct_trace_module *info;
    const struct ct_trace_function *function = ct_trace_function(r->trace, process, id);
    bool is_c = function && module_of(r, process, id, &info) && ct_library_is_c(info->path);
    return is_c ? ct_library_call(function->linkage_name) : NULL;
}

int ct_arguments_of(struct ct_argument_reader *r, size_t thread, const struct ct_trace_detail *detail,
                    struct ct_arguments *out) {
    const struct ct_trace_thread *info = ct_trace_thread_at(r->trace, thread);
    out->count = 0;
    if (!info || (detail->type != CT_TRACE_DETAIL_CALL && detail->type != CT_TRACE_DETAIL_RETURN))
        return CT_ERR_NOT_FOUND;
    const struct ct_memory memory = {detail, r->constants, info->process,
                                     library_call(r, info->process, detail->function_id)};
    const struct ct_machine *machine = ct_machine_by_arch(detail->arch);
    read_by(machine ? signature_of(r, info->process, detail->function_id, machine) : NULL, &memory, out);
    return 0;
}

int ct_arguments_read(struct ct_argument_reader *r, size_t thread, uint32_t detail_seq, struct ct_arguments *out) {
    out->count = 0;
    r->detail.size = sizeof r->detail;
    int status = ct_trace_detail(r->trace, thread, detail_seq, &r->detail);
    return status ? status : ct_arguments_of(r, thread, &r->detail, out);
}

void ct_arguments_result(const struct ct_arguments *a, char *text, size_t size) {
    const char *value = a->count ? a->at[0].text : "", *name = a->error ? strerrorname_np((int)a->error) : NULL;
    char number[32];
    if (!name)
        snprintf(number, sizeof number, "%d", (int)a->error);
    if (!a->error)
        snprintf(text, size, "%s", value);
    else
        snprintf(text, size, "%s%s%s%s", value, *value ? " " : "",
                 *value && a->failed ? "" : "errno=", name ? name : number);
}

void ct_arguments_text(const struct ct_arguments *arguments, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        const struct ct_argument *a = &arguments->at[i];
        int length =
            snprintf(text + used, size - used, "%s%s%s%s", i ? ", " : "", a->name, *a->name ? "=" : "", a->text);
        if (length < 0 || (size_t)length + 8 > size - used) {
            snprintf(text + used, size - used, "%s…", i ? ", " : "");
            return;
        }
        used += (size_t)length;
    }
    if (arguments->variadic || arguments->left_out)
        snprintf(text + used, size - used, "%s…", arguments->count ? ", " : "");
}
