/* The library behind the wrapper. */
int wrapped_function(int x) __attribute__((visibility("default")));

int wrapped_function(int x) {
    __asm__ volatile("" ::: "memory");
    return x * 2;
}
