/* SPDX-License-Identifier: Apache-2.0 */
/* Interpreters whose labels are near their first byte and only known to a table. Compiled in many ways for
 * jump_shapes.c; SUBJECT is the form's name. The opcodes are 0: return, 1: add one, 2: go on. */
#define JOIN2(form, name) form##_##name
#define JOIN(form, name)  JOIN2(form, name)
#define NAME(name)        JOIN(SUBJECT, name)

int NAME(threaded)(const unsigned char *code);
int NAME(one_jump)(const unsigned char *code);
int NAME(switched)(const unsigned char *code);

/* Every opcode jumps on by itself. */
int NAME(threaded)(const unsigned char *code) {
    static const void *const table[] = {&&end, &&add, &&next};
    int sum = 0;
next:
    goto *table[*code++];
add:
    sum++;
    goto *table[*code++];
end:
    return sum;
}

/* One jump for all, by a register that was loaded somewhere else. */
int NAME(one_jump)(const unsigned char *code) {
    static const void *const table[] = {&&end, &&add, &&next};
    const void *target;
    int sum = 0;
next:
    target = table[*code++];
jump:
    __asm__ volatile("");
    goto *target;
add:
    sum++;
    target = table[2];
    goto jump;
end:
    return sum;
}

int NAME(switched)(const unsigned char *code) {
    int sum = 0;
    for (;;)
        switch (*code++) {
        case 0:
            return sum;
        case 1:
            sum++;
            break;
        case 2:
            break;
        case 3:
            sum ^= 7;
            break;
        case 4:
            sum -= 9;
            break;
        case 5:
            sum *= 3;
            break;
        default:
            __builtin_unreachable();
        }
}
