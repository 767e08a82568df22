/* The program that `contrail demo` watches: it sorts the words of a text on two threads. */
#ifndef CT_CLI_DEMO_SAMPLE_H
#define CT_CLI_DEMO_SAMPLE_H

#include <stddef.h>

struct sample_function {
    const char *name;
    void *address;
};

extern const struct sample_function sample_functions[];
extern const size_t sample_function_count;

/* Does its work without knowing that it is watched. Returns the number of different words. */
size_t sample_run(void);

#endif
