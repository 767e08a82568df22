/* SPDX-License-Identifier: Apache-2.0 */
/* libc: sorting, regular expressions, printf and scanf of doubles, locales, strings, time, threads, environment. */
#include "workload.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

static uint64_t state = 1;
static uint64_t random_next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 16;
}

static uint64_t hash_text(uint64_t hash, const char *text) {
    while (*text)
        hash = (hash ^ (unsigned char)*text++) * 0x100000001b3u;
    return hash;
}

static int compare_ints(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sorting(int scale) {
    size_t count = (size_t)scale * 5000;
    uint32_t *values = malloc(count * sizeof *values);
    char **texts = malloc(count * sizeof *texts);
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = (uint32_t)random_next();
        if (asprintf(&texts[i], "%x-%zu", values[i] % 1000, i) < 0)
            abort();
    }
    qsort(values, count, sizeof *values, compare_ints);
    qsort(texts, count, sizeof *texts, compare_texts);
    for (size_t i = 0; i < count; i++) {
        hash = hash_text(hash * 31 + values[i], texts[i]);
        if (i % 7 == 0 && !bsearch(&values[i], values, count, sizeof *values, compare_ints))
            puts("bsearch failed");
        free(texts[i]);
    }
    printf("sorted %zu: %016" PRIx64 "\n", count, hash);
    free(values);
    free(texts);
}

static void expressions(int scale) {
    static const char *const patterns[] = {"^[a-z]+([0-9]+)$", "(a|b)*c{2,5}", "\\bfox\\b", "[[:upper:]][[:alnum:]_]*",
                                           "^(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\\?([^#]*))?(#(.*))?"};
    static const char *const texts[] = {
        "abc123", "ababccc", "the quick brown fox jumps", "Hello_World9 x", "http://example.org:80/path?query#frag",
        ""};
    for (int round = 0; round < scale; round++)
        for (size_t p = 0; p < 5; p++) {
            regex_t expression;
            if (regcomp(&expression, patterns[p], REG_EXTENDED) != 0)
                continue;
            for (size_t t = 0; t < 6; t++) {
                regmatch_t m[4];
                int found = regexec(&expression, texts[t], 4, m, 0) == 0;
                if (round == 0)
                    printf("regex %zu %zu: %d %d-%d\n", p, t, found, found ? m[0].rm_so : -1, found ? m[0].rm_eo : -1);
            }
            regfree(&expression);
        }
}

static void numbers(int scale) {
    uint64_t hash = 0;
    char text[512];
    for (int i = 0; i < scale * 2000; i++) {
        union {
            uint64_t bits;
            double value;
        } u = {.bits = random_next() << 20 ^ random_next()};
        if (u.value != u.value)
            continue;
        double back = 0, back_short = 0;
        snprintf(text, sizeof text, "%.17g %a %.3e %Lg", u.value, u.value, u.value, (long double)u.value);
        hash = hash_text(hash, text);
        if (sscanf(text, "%lf", &back) != 1 || back != u.value)
            printf("%s did not come back\n", text);
        back_short = strtod(text, NULL);
        if (back_short != u.value)
            printf("strtod of %s went wrong\n", text);
        snprintf(text, sizeof text, "%20.10f|%-12d|%+8ld|%08x|%5s|%c|%%|%p", (double)(i * i) / 7, i, (long)i * 1000, i,
                 "str", 'c', (void *)0);
        hash = hash_text(hash, text);
    }
    printf("numbers: %016" PRIx64 "\n", hash);
    int a, b;
    char word[20];
    float f;
    printf("scanned %d: ", sscanf("12 0x1f word 2.5e3", "%d %x %19s %f", &a, (unsigned *)&b, word, &f));
    printf("%d %d %s %g\n", a, b, word, (double)f);
    printf("%ld %ld %lu %d\n", strtol("-123abc", NULL, 10), strtol("7fffffffffffffffff", NULL, 16),
           strtoul("777", NULL, 8), errno == ERANGE);
}

static void locales(void) {
    const char *name = setlocale(LC_ALL, "C.UTF-8");
    wchar_t wide[64];
    char narrow[128];
    printf("locale %s\n", name ? name : "none");
    size_t length = mbstowcs(wide, "Grüße, žluťoučký kůň 日本", 64);
    for (size_t i = 0; i < length; i++)
        wide[i] = (wchar_t)towupper((wint_t)wide[i]);
    wcstombs(narrow, wide, sizeof narrow);
    printf("%zu %s %d\n", length, narrow, wcwidth(L'日'));
    printf("%s %d\n", localeconv()->decimal_point, strcoll("abc", "abd"));
    swprintf(wide, 64, L"%ls-%d", L"wide", 42);
    printf("%ls\n", wide);
    setlocale(LC_ALL, "C");
}

static void calendar(void) {
    setenv("TZ", "UTC0", 1);
    tzset();
    time_t moment = 1234567890;
    struct tm tm;
    char text[128];
    strftime(text, sizeof text, "%A %Y-%m-%d %H:%M:%S %j %U %Z", gmtime_r(&moment, &tm));
    printf("%s %ld\n", text, (long)mktime(&tm));
    memset(&tm, 0, sizeof tm);
    printf("%s", strptime("2020-02-29 12:34:56", "%Y-%m-%d %H:%M:%S", &tm) ? asctime(&tm) : "none\n");
}

static void forget_key(void *key) {
    (void)key; /* the keys are static */
}

static int tree_compare(const void *a, const void *b) {
    return strcmp(a, b);
}

static void containers(void) {
    void *root = NULL;
    static char keys[200][16];
    hcreate(300);
    for (int i = 0; i < 200; i++) {
        snprintf(keys[i], sizeof keys[i], "key%d", i * 7919 % 200);
        tsearch(keys[i], &root, tree_compare);
        hsearch((ENTRY){keys[i], NULL}, ENTER);
    }
    int found = 0;
    for (int i = 0; i < 200; i++)
        found += tfind(keys[i], &root, tree_compare) != NULL && hsearch((ENTRY){keys[i], NULL}, FIND) != NULL;
    printf("containers %d\n", found);
    tdestroy(root, forget_key);
    hdestroy();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long shared_sum, turns;

static void *thread_body(void *arg) {
    long id = (long)(intptr_t)arg;
    for (long i = 0; i < 200; i++) {
        char *memory = malloc((size_t)(i * 37 % 1000) + 1);
        memset(memory, (int)i, (size_t)(i * 37 % 1000) + 1);
        pthread_mutex_lock(&lock);
        while (turns % 4 != id) /* strictly in turn */
            pthread_cond_wait(&changed, &lock);
        turns++;
        shared_sum += id * i;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        free(memory);
    }
    return arg;
}

static void thread_work(void) {
    pthread_t threads[4];
    shared_sum = turns = 0;
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread_body, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("threads %ld %ld\n", shared_sum, turns);
}

static jmp_buf out;
static volatile sig_atomic_t signals;

static void on_signal(int number) {
    signals += number == SIGUSR1;
}

static void jump(int depth) {
    if (depth == 0)
        longjmp(out, 5);
    if (depth < 0)
        return;
    jump(depth - 1);
    signals += 0;
}

static void control(void) {
    volatile int jumps = 0;
    while (setjmp(out) != 5 || ++jumps < 100)
        jump(jumps % 10);
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    printf("jumps %d signals %d\n", jumps, (int)signals);
    signals = 0;
}

static void processes(void) {
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char text[32];
        snprintf(text, sizeof text, "child %d\n", 7);
        _exit(write(1, text, strlen(text)) == 8 ? 7 : 1);
    }
    waitpid(pid, &status, 0);
    printf("child ended with %d\n", WEXITSTATUS(status));
    char text[64] = "";
    FILE *f = popen("echo from a shell", "r");
    if (f && fgets(text, sizeof text, f))
        printf("%s", text);
    printf("shell ended with %d\n", f ? pclose(f) : -1);
    fflush(stdout);
    printf("system gave %d\n", system("exit 3") >> 8);
}

static void files(void) {
    char path[] = "/tmp/contrail-e2e-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!f)
        return;
    for (int i = 0; i < 1000; i++)
        fprintf(f, "%d\t%s\n", i, i % 3 ? "line" : "another line");
    rewind(f);
    char *line = NULL;
    size_t size = 0, lines = 0, bytes = 0;
    ssize_t got;
    while ((got = getline(&line, &size, f)) > 0) {
        lines++;
        bytes += (size_t)got;
    }
    struct stat st;
    fstat(fd, &st);
    printf("file %zu %zu %ld\n", lines, bytes, (long)st.st_size);
    free(line);
    fclose(f);
    unlink(path);
    printf("gone: %s\n", access(path, F_OK) ? strerror(errno) : "no");
    glob_t found;
    printf("glob %d\n", glob("/proc/sel[f]", 0, NULL, &found) == 0 ? (int)found.gl_pathc : -1);
    globfree(&found);
}

void workload_c(int scale) {
    state = 1;
    sorting(scale);
    expressions(scale);
    numbers(scale);
    locales();
    calendar();
    containers();
    thread_work();
    control();
    processes();
    files();
}
