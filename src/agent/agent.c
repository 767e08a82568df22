/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's entry point. The controller calls it from outside, while every thread of the process is stopped.
 *
 * The agent is one freestanding image without dynamic dependencies or undefined symbols; everything it needs comes
 * through its argument or from the kernel. It runs on a stack that the controller chooses. */
#include "agent/agent_detail.h"
#include "agent/agent_lane.h"
#include "agent/request.h"
#include "agent/table.h"
#include "hook/fault.h"
#include "os/os.h"
#include "os/thread.h"

static struct ct_runtime runtime;

/* The thread pointer of a static program points here before the program sets up its own: stubs read the first word. */
static uint64_t early_thread_pointer[8];

static int prepare_runtime(const struct ct_boot *boot) {
    struct ct_runtime *rt = &runtime;
    rt->pid = boot->pid;
    rt->hooks = (struct ct_hook_entry *)boot->hooks;
    rt->max_depth = boot->max_depth;
    rt->buffer_bytes = ct_agent_lane_control()->chunk_bytes;
    rt->children_blind = 1;
    rt->reports_stacks = 1;
    rt->silent = boot->silent;
    rt->current = ct_block_current;
    rt->mark = ct_agent_detail_mark_listened;
    rt->get_cfa = (uint64_t(*)(void *))boot->get_cfa;
    rt->holds_stubs = ct_agent_lane_holds_stubs;
    (void)ct_os_vectors(&rt->vectors);
    rt->parked = ct_os_alloc(CT_PARKED_CAPACITY * sizeof *rt->parked, CT_OS_READ | CT_OS_WRITE);
    return rt->parked ? CT_OK : CT_ERR_NO_MEMORY;
}

static int make_blocks(const struct ct_boot *boot) {
    struct ct_boot_thread *threads = (struct ct_boot_thread *)boot->threads;
    for (uint64_t i = 0; i < boot->thread_count; i++) {
        struct ct_block *b = ct_block_create(&runtime, threads[i].tid, threads[i].thread_pointer);
        if (!b)
            return CT_ERR_NO_MEMORY;
        ct_block_place(b);
        threads[i].block = (uint64_t)b;
    }
    return CT_OK;
}

static int start_agent(struct ct_boot *boot) {
    if (!ct_agent_lane_open(boot->shm))
        return CT_ERR_BAD_FILE;
    int status = prepare_runtime(boot);
    if (!status)
        status = ct_table_open(&runtime, boot);
    if (!status)
        status = make_blocks(boot);
    if (status)
        return status;
    ct_agent_lane_set_code(&boot->code);
    boot->runtime = (uint64_t)&runtime;
    __atomic_store_n(&ct_agent_lane_control()->agent_state, CT_AGENT_READY, __ATOMIC_RELEASE);
    ct_request_open(&runtime);
    if (boot->take_faults) {
        boot->faults = (uint64_t)&ct_fault_table;
        ct_fault_take(&runtime);
    }
    if (boot->silent)
        ct_os_go_silent();
    return CT_OK;
}

__attribute__((visibility("default"), used)) uint64_t ct_agent_run(struct ct_boot *boot);

uint64_t ct_agent_run(struct ct_boot *boot) {
    early_thread_pointer[0] = (uint64_t)early_thread_pointer;
    runtime.boot = (uint64_t)boot;
    if (boot->magic != CT_BOOT_MAGIC || boot->version != CT_BOOT_VERSION)
        boot->status = CT_ERR_UNSUPPORTED;
    else
        boot->status = start_agent(boot);
    boot->early_thread_pointer = (uint64_t)early_thread_pointer;
    return (uint64_t)(int64_t)boot->status;
}
