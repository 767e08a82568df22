/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: getting in and out, and the thread that waits for requests. See target.h.
 *
 * The waiting thread takes a request, hands it to Node's thread, and waits for the next one: which of them are served,
 * and in which order, is Node's affair. When Node's thread has served one it looks for the next by itself, and the
 * waiting thread sleeps until nothing more comes. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const napi_type_tag target_tag = {0x2d1dd7b78d3b4b1f, 0xb6f5b04bd2e6f09a};
enum { ERROR_TEXT = 512 };

static struct ct_node_target *open_targets; /* of all environments; under `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- arguments and errors ---- */

static struct ct_node_target *take_target(struct ct_node_call *call) {
    napi_value value = ct_node_take(call);
    struct ct_node_target *target = NULL;
    bool is = false;
    if (napi_check_object_type_tag(call->env, value, &target_tag, &is) == napi_ok && is)
        napi_get_value_external(call->env, value, (void **)&target);
    if (target && target->script)
        return target;
    call->failed = true;
    ct_node_throw(call->env, CT_ERR_BAD_STATE,
                  target ? "the session has ended: its process is no longer attached" : "expected a target");
    return NULL;
}

/* What failed before is over: a function that has nothing to say about its own failure must not repeat it. */
struct ct_node_target *ct_node_take_target(struct ct_node_call *call) {
    struct ct_node_target *target = take_target(call);
    if (target)
        ct_script_forget_error(target->script);
    return target;
}

void *ct_node_take_struct(struct ct_node_call *call, size_t size) {
    size_t got = 0;
    void *bytes = ct_node_take_bytes(call, &got);
    if (!call->failed && got >= size)
        return bytes;
    if (!call->failed)
        napi_throw_type_error(call->env, "ERR_INVALID_ARGUMENT", "the buffer is too small");
    call->failed = true;
    return NULL;
}

void *ct_node_take_struct_or_null(struct ct_node_call *call, size_t size) {
    napi_valuetype type = napi_undefined;
    if (call->next < call->count)
        napi_typeof(call->env, call->arguments[call->next], &type);
    if (type != napi_null && type != napi_undefined)
        return ct_node_take_struct(call, size);
    call->next++;
    return NULL;
}

napi_value ct_node_fail(struct ct_node_call *call, struct ct_node_target *target, int status) {
    char text[ERROR_TEXT] = "";
    if (target->script)
        ct_script_error(target->script, text, sizeof text);
    return ct_node_throw(call->env, status, text);
}

napi_value ct_node_done(struct ct_node_call *call, struct ct_node_target *target, int status) {
    return status < 0 ? ct_node_fail(call, target, status) : ct_node_undefined(call->env);
}

/* ---- requests ---- */

bool ct_node_handle(struct ct_node_target *target, const struct ct_script_request *request) {
    napi_env env = target->env;
    napi_handle_scope scope;
    napi_value handler, result, error;
    bool pending = false;
    if (!target->handler || napi_open_handle_scope(env, &scope) != napi_ok)
        return false;
    napi_value buffer = ct_node_buffer(env, request, sizeof *request, NULL);
    bool ok = buffer && napi_get_reference_value(env, target->handler, &handler) == napi_ok && handler &&
              napi_call_function(env, ct_node_undefined(env), handler, 1, &buffer, &result) == napi_ok;
    if (napi_is_exception_pending(env, &pending) == napi_ok && pending)
        napi_get_and_clear_last_exception(env, &error);
    napi_close_handle_scope(env, scope);
    return ok;
}

static struct ct_node_request *take_request(struct ct_node_target *target) {
    pthread_mutex_lock(&target->mutex);
    struct ct_node_request *taken = target->first;
    if (taken)
        target->first = taken->next;
    if (!target->first)
        target->last = NULL;
    pthread_mutex_unlock(&target->mutex);
    return taken;
}

static void handle(struct ct_node_target *target, const struct ct_script_request *request) {
    target->calls++;
    if (!ct_node_handle(target, request) && request->slot != CT_SCRIPT_NO_SLOT)
        ct_script_answer(target->script, request, false);
    target->calls--;
}

/* False: none was taken. */
static bool handle_next(struct ct_node_target *target) {
    struct ct_node_request *taken = target->script ? take_request(target) : NULL;
    if (!taken)
        return false;
    handle(target, &taken->request);
    free(taken);
    return true;
}

/* look(target): handles one request; false: none has come for as long as Node's thread may look for one. After true it
 * is called again soon: the waiting thread sleeps meanwhile. */
static napi_value look(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_request request;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    bool handled = handle_next(target);
    if (!handled && !ct_script_look(target->script, &request)) {
        handle(target, &request);
        handled = true;
    }
    return ct_node_bool(env, handled);
}

/* On Node's thread, once for each request: between them Node has its timers. Without an environment Node is ending. */
static void wake_up(napi_env env, napi_value unused, void *context, void *data) {
    (void)unused;
    (void)data;
    if (env)
        handle_next(context);
}

static void *wait_for_requests(void *arg) {
    struct ct_node_target *target = arg;
    for (;;) {
        struct ct_node_request *taken = calloc(1, sizeof *taken);
        if (!taken || ct_script_wait(target->script, UINT32_MAX, &taken->request) < 0) {
            free(taken);
            break;
        }
        pthread_mutex_lock(&target->mutex);
        if (target->last)
            target->last->next = taken;
        else
            target->first = taken;
        target->last = taken;
        pthread_cond_signal(&target->more);
        pthread_mutex_unlock(&target->mutex);
        if (napi_call_threadsafe_function(target->wake, NULL, napi_tsfn_blocking) != napi_ok)
            break;
    }
    napi_release_threadsafe_function(target->wake, napi_tsfn_release);
    return NULL;
}

static bool is_before(const struct timespec *then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < then->tv_sec || (now.tv_sec == then->tv_sec && now.tv_nsec < then->tv_nsec);
}

/* pump(target, ms): serves requests for that long, while Node itself waits (Thread.sleep). */
static napi_value pump(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct timespec until;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t ms = ct_node_take_u32(&call);
    if (call.failed)
        return NULL;
    ct_script_rest(target->script);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000 + (until.tv_nsec + ms % 1000 * 1000000L) / 1000000000L;
    until.tv_nsec = (until.tv_nsec + ms % 1000 * 1000000L) % 1000000000L;
    do {
        handle_next(target);
        int status = 0;
        pthread_mutex_lock(&target->mutex);
        while (!target->first && status != ETIMEDOUT)
            status = pthread_cond_clockwait(&target->more, &target->mutex, CLOCK_MONOTONIC, &until);
        pthread_mutex_unlock(&target->mutex);
    } while (target->script && is_before(&until));
    return ct_node_undefined(env);
}

/* start(target, handler): from now on handler(request) is called for each; Node does not end before that does. */
static napi_value start(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    napi_value handler = ct_node_take(&call);
    if (call.failed)
        return NULL;
    if (target->has_waiter)
        return ct_node_throw(env, CT_ERR_BAD_STATE, NULL);
    if (napi_create_reference(env, handler, 1, &target->handler) != napi_ok ||
        napi_create_threadsafe_function(env, NULL, NULL, ct_node_text(env, "contrail"), 0, 1, NULL, NULL, target,
                                        wake_up, &target->wake) != napi_ok)
        return ct_node_throw(env, CT_ERR_INVALID_ARGUMENT, NULL);
    if (pthread_create(&target->waiter, NULL, wait_for_requests, target)) {
        napi_release_threadsafe_function(target->wake, napi_tsfn_abort);
        return ct_node_throw(env, CT_ERR_NO_THREADS, NULL);
    }
    target->has_waiter = true;
    return ct_node_undefined(env);
}

/* ---- in and out ---- */

static int close_target(struct ct_node_target *target) {
    struct ct_script *script = target->script;
    if (!script)
        return 0;
    ct_script_shut(script);
    if (target->has_waiter)
        pthread_join(target->waiter, NULL);
    target->has_waiter = false;
    target->script = NULL;
    for (struct ct_node_request *taken; (taken = take_request(target)) != NULL;)
        free(taken);
    if (target->handler)
        napi_delete_reference(target->env, target->handler);
    target->handler = NULL;
    pthread_mutex_lock(&lock);
    for (struct ct_node_target **at = &open_targets; *at; at = &(*at)->next) {
        if (*at == target) {
            *at = target->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return ct_script_close(script);
}

/* Node ends: nothing of ours stays in the targets. */
static void close_all(void *arg) {
    for (;;) {
        pthread_mutex_lock(&lock);
        struct ct_node_target *target = open_targets;
        while (target && target->env != arg)
            target = target->next;
        pthread_mutex_unlock(&lock);
        if (!target)
            return;
        close_target(target);
    }
}

/* The structure stays as long as the process: requests that wait in Node's queue name it. */
static napi_value hold(napi_env env, struct ct_script *script) {
    struct ct_node_target *target = calloc(1, sizeof *target);
    napi_value external = NULL;
    if (!target || napi_create_external(env, target, NULL, NULL, &external) != napi_ok ||
        napi_type_tag_object(env, external, &target_tag) != napi_ok) {
        ct_script_close(script);
        free(target);
        return ct_node_throw(env, CT_ERR_NO_MEMORY, NULL);
    }
    target->script = script;
    target->env = env;
    pthread_mutex_init(&target->mutex, NULL);
    pthread_cond_init(&target->more, NULL);
    pthread_mutex_lock(&lock);
    bool known = false;
    for (struct ct_node_target *other = open_targets; other; other = other->next)
        known = known || other->env == env;
    target->next = open_targets;
    open_targets = target;
    pthread_mutex_unlock(&lock);
    if (!known) {
        napi_remove_env_cleanup_hook(env, close_all, env);
        napi_add_env_cleanup_hook(env, close_all, env);
    }
    return external;
}

static struct ct_script_options take_options(struct ct_node_call *call) {
    struct ct_script_options options = {.size = sizeof options, .sleeps = 1};
    options.timeout_ms = ct_node_take_u32(call);
    options.spin_us = ct_node_take_u32(call);
    return options;
}

/* attach(pid, timeoutMs, spinUs): a target. */
static napi_value attach(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script *script = NULL;
    char error[ERROR_TEXT] = "";
    ct_node_begin(&call, env, info);
    int pid = ct_node_take_i32(&call);
    struct ct_script_options options = take_options(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_attach(&script, pid, &options, error, sizeof error);
    return status ? ct_node_throw(env, status, error) : hold(env, script);
}

/* A list of texts that ends with NULL. */
static char **take_texts(struct ct_node_call *call) {
    napi_value array = ct_node_take(call);
    uint32_t count = 0;
    bool is = false;
    if (napi_is_array(call->env, array, &is) != napi_ok || !is)
        return NULL;
    napi_get_array_length(call->env, array, &count);
    char **texts = calloc((size_t)count + 1, sizeof *texts);
    for (uint32_t i = 0; texts && i < count; i++) {
        struct ct_node_call one = {.env = call->env, .count = 1};
        napi_get_element(call->env, array, i, &one.arguments[0]);
        texts[i] = ct_node_take_text(&one);
        if (!texts[i]) {
            call->failed = true;
            break;
        }
    }
    return texts;
}

static void free_texts(char **texts) {
    for (size_t i = 0; texts && texts[i]; i++)
        free(texts[i]);
    free(texts);
}

/* Node's own streams are closed by exec. The program that we start has the same. */
static void inherit_streams(bool inherit) {
    for (int fd = 0; fd <= 2; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0)
            (void)fcntl(fd, F_SETFD, inherit ? flags & ~FD_CLOEXEC : flags | FD_CLOEXEC);
    }
}

/* spawn(path, [argument], [variable] or null, timeoutMs, spinUs, ignoredSignals, openFiles): a target that is stopped.
 */
static napi_value spawn(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script *script = NULL;
    char error[ERROR_TEXT] = "";
    napi_value target = NULL;
    ct_node_begin(&call, env, info);
    char *path = ct_node_take_text(&call), **argv = take_texts(&call), **envp = take_texts(&call);
    struct ct_script_options options = take_options(&call);
    options.set_signals = 1;
    options.ignored_signals = ct_node_take_u64(&call);
    options.open_files = ct_node_take_u32(&call);
    if (!call.failed && path && argv) {
        inherit_streams(true);
        int status = ct_script_spawn(&script, path, argv, envp, &options, error, sizeof error);
        inherit_streams(false);
        target = status ? ct_node_throw(env, status, error) : hold(env, script);
    } else if (!call.failed) {
        ct_node_throw(env, CT_ERR_INVALID_ARGUMENT, NULL);
    }
    free(path);
    free_texts(argv);
    free_texts(envp);
    return target;
}

static napi_value resume(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_resume(target->script));
}

/* error(target): the sentence for what failed last; "" when there is none. */
static napi_value last_error(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    char text[ERROR_TEXT] = "";
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = take_target(&call);
    if (call.failed)
        return NULL;
    ct_script_error(target->script, text, sizeof text);
    return ct_node_text(env, text);
}

/* setTimeout(target, ms): how long threads wait from now on. */
static napi_value set_timeout(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    uint32_t ms = ct_node_take_u32(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_set_timeout(target->script, ms));
}

/* watchFaults(target, on) */
static napi_value watch_faults(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    bool on = ct_node_take_bool(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_watch_faults(target->script, on));
}

/* watchModules(target, on) */
static napi_value watch_modules(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    bool on = ct_node_take_bool(&call);
    return call.failed ? NULL : ct_node_done(&call, target, ct_script_watch_modules(target->script, on));
}

/* modulesSeen(target, request) */
static napi_value modules_seen(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    const struct ct_script_request *request = ct_node_take_struct(&call, sizeof *request);
    if (!call.failed)
        ct_script_modules_seen(target->script, request);
    return ct_node_undefined(env);
}

/* close(target, atExit): nothing of ours stays in it. Not while one of its functions is under way, unless Node exits:
 * then none of them goes on. */
static napi_value close_it(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    bool at_exit = ct_node_take_bool(&call);
    if (call.failed)
        return NULL;
    if (target->calls && !at_exit)
        return ct_node_throw(env, CT_ERR_BAD_STATE, "a callback cannot end its own session");
    int status = close_target(target);
    return status < 0 && status != CT_ERR_NOT_FOUND ? ct_node_throw(env, status, NULL) : ct_node_undefined(env);
}

/* state(target): {life, exitStatus, pid, timeouts, unserved, lostEvents, hooks, mainBase}. */
static napi_value state(napi_env env, napi_callback_info info) {
    struct ct_node_call call;
    struct ct_script_state now = {0};
    ct_node_begin(&call, env, info);
    struct ct_node_target *target = ct_node_take_target(&call);
    if (call.failed)
        return NULL;
    int status = ct_script_get_state(target->script, &now);
    if (status < 0)
        return ct_node_fail(&call, target, status);
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"life", now.life},
        {"exitStatus", now.exit_status},
        {"pid", now.pid},
        {"timeouts", (double)now.timeouts},
        {"unserved", (double)now.unserved},
        {"lostEvents", (double)now.lost_events},
        {"hooks", (double)now.hooks},
    };
    napi_value object = ct_node_object(env);
    for (size_t i = 0; i < CT_NODE_COUNT(numbers); i++)
        ct_node_set(env, object, numbers[i].name, ct_node_number(env, numbers[i].value));
    ct_node_set(env, object, "mainBase", ct_node_bigint(env, now.main_base));
    return object;
}

void ct_node_add_target(napi_env env, napi_value exports) {
    const struct ct_node_function functions[] = {
        {"attach", attach},
        {"spawn", spawn},
        {"start", start},
        {"look", look},
        {"pump", pump},
        {"resume", resume},
        {"close", close_it},
        {"state", state},
        {"setTimeout", set_timeout},
        {"error", last_error},
        {"watchFaults", watch_faults},
        {"watchModules", watch_modules},
        {"modulesSeen", modules_seen},
    };
    ct_node_add(env, exports, functions, CT_NODE_COUNT(functions));
    ct_node_add_lists(env, exports);
    ct_node_add_memory(env, exports);
    ct_node_add_hooks(env, exports);
    ct_node_add_stalker(env, exports);
    ct_node_add_objects(env, exports);
    ct_node_add_layout(env, exports);
}
