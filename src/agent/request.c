/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the controller (abi/shm_abi.h): a process has been forked, is about to execute another program, or has
 * loaded libraries. The thread that asks waits for the answer, because the controller needs it stopped; but it never
 * waits for a controller that is dead or does not listen.
 *
 * A forked child writes through the mapping that it inherited from its parent. "Yes" means that other memory has
 * replaced it, with a lane of its own: the request is no longer there. */
#include "agent/request.h"
#include "abi/shm_abi.h"
#include "agent/agent_lane.h"
#include "os/os.h"
#include "os/thread.h"

#define FIRST_NAP_US 30u
#define LONG_NAP_US  1000u
#define PATIENCE_US  30000000u

static struct ct_shm_request *requests(void) {
    return (struct ct_shm_request *)((uint64_t)ct_agent_lane_control() + CT_SHM_REQUESTS_OFFSET);
}

static struct ct_shm_request *free_request(void) {
    uint32_t filled = CT_REQUEST_FILLED_BY(ct_os_gettid());
    for (unsigned i = 0; i < CT_SHM_REQUESTS; i++) {
        uint32_t expected = CT_REQUEST_FREE;
        if (__atomic_compare_exchange_n(&requests()[i].state, &expected, filled, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return &requests()[i];
    }
    return NULL;
}

static bool is_heard(void) {
    return ct_agent_lane_is_recording() && __atomic_load_n(&ct_agent_lane_control()->listening, __ATOMIC_RELAXED);
}

/* Many processes may ask at once: if all requests are taken, the caller waits for one. */
static struct ct_shm_request *take_request(void) {
    uint32_t nap = FIRST_NAP_US;
    for (uint32_t waited = 0; waited < PATIENCE_US && is_heard(); waited += nap) {
        struct ct_shm_request *request = free_request();
        if (request)
            return request;
        ct_os_sleep_us(nap);
        if (nap < LONG_NAP_US)
            nap += nap / 4;
    }
    return NULL;
}

static uint32_t state_of(const struct ct_shm_request *request) {
    return __atomic_load_n(&request->state, __ATOMIC_ACQUIRE);
}

/* Returns the state that was seen last. */
static uint32_t wait_for_answer(const struct ct_shm_request *request) {
    uint32_t nap = FIRST_NAP_US, state;
    for (uint32_t waited = 0; waited < PATIENCE_US; waited += nap) {
        state = state_of(request);
        if (state != CT_REQUEST_POSTED && state != CT_REQUEST_TAKEN)
            return state;
        if (!is_heard())
            break;
        ct_os_sleep_us(nap);
        if (nap < LONG_NAP_US)
            nap += nap / 4;
    }
    return CT_REQUEST_POSTED;
}

/* *answer is 0 if nobody has answered. Returns false if there is nobody to ask. */
static bool ask_controller(struct ct_shm_request text, uint32_t *state, int *answer) {
    struct ct_shm_control *c = ct_agent_lane_control();
    bool wanted = text.kind == CT_REQUEST_LOADED || c->children;
    if (ct_os_is_silent() || !c->listening || !wanted || !ct_agent_lane_is_recording())
        return false;
    struct ct_shm_request *request = take_request();
    if (!request)
        return false;
    request->kind = text.kind;
    request->pid = ct_os_getpid();
    request->tid = ct_os_gettid();
    request->argument = text.argument;
    request->directory = text.directory;
    request->answer = 0;
    request->asked = ct_os_timestamp();
    __atomic_store_n(&request->state, CT_REQUEST_POSTED, __ATOMIC_RELEASE);
    __atomic_fetch_add(&c->request_futex, 1, __ATOMIC_RELEASE);
    ct_os_wake(&c->request_futex);
    *state = wait_for_answer(request);
    *answer = *state == CT_REQUEST_ANSWERED ? request->answer : 0;
    if (*state != CT_REQUEST_FREE) {
        request->resumed = ct_os_timestamp();
        __atomic_store_n(&request->state, CT_REQUEST_FREE, __ATOMIC_RELEASE);
    }
    return true;
}

void ct_request_executes(uint64_t path, int directory) {
    uint32_t state;
    int answer;
    (void)ask_controller((struct ct_shm_request){.kind = CT_REQUEST_EXEC, .argument = path, .directory = directory},
                         &state, &answer);
}

static void report_loaded(void) {
    uint32_t state;
    int answer;
    (void)ask_controller((struct ct_shm_request){.kind = CT_REQUEST_LOADED}, &state, &answer);
}

bool ct_request_forked(void) {
    uint32_t state;
    int answer;
    return ask_controller((struct ct_shm_request){.kind = CT_REQUEST_FORKED}, &state, &answer) &&
           state == CT_REQUEST_FREE && ct_agent_lane_open((uint64_t)ct_agent_lane_control());
}

static bool ask_after_fork(struct ct_runtime *rt) {
    bool followed = ct_request_forked();
    if (!followed) {
        rt->on_exec = NULL;
        rt->before_fork = NULL;
        rt->on_loaded = NULL;
        rt->on_fork = NULL; /* nor its own children */
    }
    return followed;
}

void ct_request_note_fork(void) {
    __atomic_store_n(&ct_agent_lane_control()->last_fork, ct_os_timestamp(), __ATOMIC_RELAXED);
}

void ct_request_open(struct ct_runtime *rt) {
    rt->before_fork = ct_request_note_fork;
    rt->on_loaded = report_loaded;
    rt->on_fork = ask_after_fork;
    rt->on_exec = ct_request_executes;
}
