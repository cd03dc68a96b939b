/* Preloaded into a command: its n-th allocation fails, counted over all of its processes in memory
 * that they share. NETARIUM_FAIL_AT is n; NETARIUM_FAIL_COUNT a file for the number of allocations.
 * Counting starts when Rust's start-up code has set an alternative stack. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static long *counter; /* NULL until counting starts */
static long fail_at;

int sigaltstack(const stack_t *stack, stack_t *old) {
    static int (*next)(const stack_t *, stack_t *);
    if (!next) next = (int (*)(const stack_t *, stack_t *))dlsym(RTLD_NEXT, "sigaltstack");
    const char *path = getenv("NETARIUM_FAIL_COUNT"), *at = getenv("NETARIUM_FAIL_AT");
    if (stack && !counter && path && at) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        void *shared = mmap(0, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        fail_at = atol(at);
        if (shared != MAP_FAILED) counter = shared;
    }
    return next(stack, old);
}

static int fails(void) {
    if (!counter || __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST) != fail_at) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? 0 : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? 0 : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? 0 : __libc_realloc(old, size); }
