/* SPDX-License-Identifier: Apache-2.0 */
/* Finds thread blocks of another process: through GS if the process hooks itself, by the agent's table if it is
 * recorded (agent/table.c). The memory there may contain anything: the walk of a shadow stack checks again
 * (process_shadow.c). */
#include "abi/boot_abi.h"
#include "abi/shm_abi.h"
#include "inspect/process.h"
#include "hook/runtime.h"

enum { MAX_BLOCKS = 8192 };

static bool word_at(const struct ct_process *process, uint64_t at, uint64_t *word) {
    return !ct_remote_read(process->remote, at, word, sizeof *word);
}

static bool is_block(const struct ct_process *process, uint64_t at) {
    uint64_t self;
    return at && word_at(process, at + CT_BLOCK_SELF, &self) && self == at;
}

static bool has_pointer(const struct ct_process *process, uint64_t block, uint64_t pointer) {
    uint64_t own;
    return is_block(process, block) && word_at(process, block + CT_BLOCK_POINTER, &own) && own == pointer;
}

static bool read_boot(const struct ct_process *process, struct ct_boot *boot) {
    uint64_t at;
    return process->lane && word_at(process, process->lane + offsetof(struct ct_shm_control, boot), &at) &&
           !ct_remote_read(process->remote, at, boot, sizeof *boot) && boot->magic == CT_BOOT_MAGIC &&
           boot->version == CT_BOOT_VERSION && boot->stray;
}

/* Searches all blocks, if another thread has the place in the table now. */
static uint64_t search_blocks(const struct ct_process *process, uint64_t runtime, uint64_t pointer) {
    uint64_t block;
    if (!word_at(process, runtime + offsetof(struct ct_runtime, blocks), &block))
        return 0;
    for (unsigned i = 0; block && i < MAX_BLOCKS; i++) {
        if (has_pointer(process, block, pointer))
            return block;
        if (ct_remote_is_over(process->remote) || !word_at(process, block + CT_BLOCK_NEXT, &block))
            return 0;
    }
    return 0;
}

uint64_t ct_process_block(const struct ct_process *process, const struct ct_registers *regs) {
    struct ct_boot boot;
    uint64_t distance, block = ct_registers_block(regs);
    if (is_block(process, block))
        return block;
    if (!read_boot(process, &boot))
        return 0;
    uint64_t pointer = ct_remote_thread_pointer(process->remote, regs);
    if (!word_at(process, boot.table + (pointer * CT_TABLE_MIX >> CT_TABLE_SHIFT & ~7ull), &distance) || !distance)
        return 0;
    block = boot.stray + distance;
    return has_pointer(process, block, pointer) ? block : search_blocks(process, boot.runtime, pointer);
}
