/* SPDX-License-Identifier: Apache-2.0 */
/* A library for module_test: a few functions, one with a jump table. With RETURN_MAP it looks like one of a runtime
 * that keeps a table of return addresses. */

#define PUBLIC __attribute__((visibility("default"), noinline))

__attribute__((visibility("default"))) volatile int module_sample_sum;

PUBLIC int module_sample_add(int a, int b);
PUBLIC int module_sample_switch(int n);

int module_sample_add(int a, int b) {
    module_sample_sum += a;
    return a + b;
}

int module_sample_switch(int n) {
    switch (n) {
    case 0:
        return module_sample_add(1, module_sample_sum);
    case 1:
        return module_sample_add(module_sample_sum, 3) * 7;
    case 2:
        module_sample_sum = 9;
        return -1;
    case 3:
        return module_sample_sum * module_sample_sum;
    case 4:
        return module_sample_add(4, module_sample_add(5, 6));
    case 5:
        return module_sample_sum / 3;
    case 6:
        return 1 << module_sample_add(0, 1);
    default:
        return 0;
    }
}

#ifdef RETURN_MAP
PUBLIC void caml_start_program(void);

void caml_start_program(void) {
    module_sample_sum++;
}
#endif
