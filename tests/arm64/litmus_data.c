/* SPDX-License-Identifier: Apache-2.0 */
/* Litmus tests of data that one thread or process writes and another one reads. */
#include "litmus.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 16384, MOST_WORDS = 64 };

/* Two chunks, which writer and reader hand to each other. The reader is a process of its own, as the drain is. */
struct lane {
    uint64_t chunks[2][CHUNK / 8];
    uint64_t filled, taken, end; /* chunks so far; the writer has ended */
    struct litmus result;
};

static uint64_t word_of(uint64_t stamp, unsigned n) {
    return stamp * 0x9e3779b97f4a7c15ull + n;
}

/* The writer's side of one chunk: records of `words` words, the first one last. */
static void fill(struct lane *lane, unsigned words, bool ordered) {
    uint64_t number = lane->filled, *chunk = lane->chunks[number % 2];
    for (unsigned at = 0; at + words <= CHUNK / 8; at += words) {
        uint64_t stamp = number * CHUNK + at + 1;
        for (unsigned n = 1; n < words; n++)
            PLAIN(chunk[at + n]) = word_of(stamp, n);
        publish(&chunk[at], stamp, ordered);
    }
    store_release(&lane->filled, number + 1);
}

/* The drain's side: it takes records as they come, clears the chunk and hands it back. */
static void take(struct lane *lane, unsigned words, bool ordered) {
    uint64_t number = lane->taken, *chunk = lane->chunks[number % 2];
    for (unsigned at = 0; at + words <= CHUNK / 8; at += words) {
        uint64_t stamp;
        while (!(stamp = notice(&chunk[at], ordered)))
            if (load_acquire(&lane->end) && load_acquire(&lane->filled) == number)
                return;
        bool wrong = stamp != number * CHUNK + at + 1;
        for (unsigned n = words - 1; n > 0; n--)
            wrong |= PLAIN(chunk[at + n]) != word_of(stamp, n);
        lane->result.wrong += wrong;
        lane->result.rounds++;
    }
    memset(chunk, 0, CHUNK);
    store_release(&lane->taken, number + 1);
}

static void lane_run(struct litmus *result, unsigned words, bool ordered) {
    struct lane *lane = mmap(NULL, sizeof *lane, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lane == MAP_FAILED)
        return;
    pid_t reader = fork();
    if (reader == 0) {
        while (!load_acquire(&lane->end) || load_acquire(&lane->filled) != lane->taken)
            take(lane, words, ordered);
        _exit(0);
    }
    while (!litmus_over()) {
        while (lane->filled - load_acquire(&lane->taken) == 2 && !litmus_over())
            sched_yield();
        if (lane->filled - load_acquire(&lane->taken) < 2)
            fill(lane, words, ordered);
    }
    store_release(&lane->end, 1);
    waitpid(reader, NULL, 0);
    *result = lane->result;
    munmap(lane, sizeof *lane);
}

/* An event: hook and kind, then the time. */
void litmus_event(struct litmus *result, bool ordered) {
    lane_run(result, 2, ordered);
}

/* A detail record: registers and stack, then its first word. */
void litmus_detail(struct litmus *result, bool ordered) {
    lane_run(result, MOST_WORDS, ordered);
}

/* A shadow entry: return address and stub, then the slot. Another thread takes it by compare-and-swap, or its owner
 * does: never both. */
enum { ENTRIES = 64 };

struct entry {
    uint64_t slot, returns, stub, takes;
};

struct stack {
    struct entry entries[ENTRIES];
    uint64_t end;
    bool ordered;
    struct litmus result;
};

static bool take_entry(struct entry *entry, uint64_t slot, bool ordered) {
    int order = ordered ? __ATOMIC_ACQ_REL : __ATOMIC_RELAXED;
    return __atomic_compare_exchange_n(&entry->slot, &slot, 0, false, order, __ATOMIC_RELAXED);
}

static void *take_entries(void *arg) {
    struct stack *stack = arg;
    for (unsigned i = 0; !load_acquire(&stack->end); i = (i + 1) % ENTRIES) {
        struct entry *entry = &stack->entries[i];
        uint64_t slot = notice(&entry->slot, stack->ordered);
        if (!slot)
            continue;
        uint64_t stub = PLAIN(entry->stub), returns = PLAIN(entry->returns);
        if (!take_entry(entry, slot, stack->ordered))
            continue;
        stack->result.wrong += stub != word_of(slot, 2) || returns != word_of(slot, 1);
        __atomic_fetch_add(&entry->takes, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

void litmus_shadow(struct litmus *result, bool ordered) {
    static struct stack stack;
    memset(&stack, 0, sizeof stack);
    stack.ordered = ordered;
    pthread_t other;
    if (pthread_create(&other, NULL, take_entries, &stack))
        return;
    uint64_t slot = 0, taken_here = 0, taken_there = 0;
    while (!litmus_over()) {
        for (unsigned i = 0; i < ENTRIES; i++) {
            struct entry *entry = &stack.entries[i];
            PLAIN(entry->returns) = word_of(++slot, 1);
            PLAIN(entry->stub) = word_of(slot, 2);
            publish(&entry->slot, slot, ordered);
        }
        for (unsigned i = ENTRIES; i-- > 0;)
            taken_here += take_entry(&stack.entries[i], slot - (ENTRIES - 1 - i), ordered);
    }
    store_release(&stack.end, 1);
    pthread_join(other, NULL);
    for (unsigned i = 0; i < ENTRIES; i++)
        taken_there += stack.entries[i].takes;
    *result = stack.result;
    result->rounds = slot;
    result->wrong += taken_here + taken_there != slot;
}

/* The list of blocks: threads put blocks in front, by compare-and-swap; others search it meanwhile. */
enum { BLOCKS = 4096 };

struct block {
    struct block *next;
    uint64_t tid;
};

static struct block blocks[2][BLOCKS];
static struct block *list;
static bool list_ordered;
static uint64_t searches, list_wrong;

static void *add_blocks(void *arg) {
    struct block *mine = arg;
    int release = list_ordered ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
    for (unsigned i = 0; i < BLOCKS; i++) {
        PLAIN(mine[i].tid) = i + 1;
        struct block *first = __atomic_load_n(&list, __ATOMIC_RELAXED);
        do
            PLAIN(mine[i].next) = first;
        while (!__atomic_compare_exchange_n(&list, &first, &mine[i], true, release, __ATOMIC_RELAXED));
    }
    return NULL;
}

static struct block *first_block(void) {
    return list_ordered ? __atomic_load_n(&list, __ATOMIC_ACQUIRE) : PLAIN(list);
}

/* Only the newest ones: the older ones were seen. */
static void search_blocks(void) {
    unsigned some = 16;
    for (struct block *block = first_block(); block && some--; block = PLAIN(block->next))
        list_wrong += PLAIN(block->tid) == 0;
    searches++;
}

void litmus_blocks(struct litmus *result, bool ordered) {
    list_ordered = ordered;
    searches = list_wrong = 0;
    while (!litmus_over()) {
        memset(blocks, 0, sizeof blocks);
        list = NULL;
        pthread_t writers[2];
        for (unsigned i = 0; i < 2; i++)
            if (pthread_create(&writers[i], NULL, add_blocks, blocks[i]))
                return;
        for (unsigned i = 0; i < BLOCKS; i++)
            search_blocks();
        pthread_join(writers[0], NULL);
        pthread_join(writers[1], NULL);
        unsigned length = 0;
        for (struct block *block = list; block; block = block->next)
            length++;
        list_wrong += length != 2 * BLOCKS;
    }
    *result = (struct litmus){.rounds = searches, .wrong = list_wrong};
}
