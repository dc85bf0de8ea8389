/* Makes chosen system calls on chosen files fail, stop short, or end the process, for tests.

   Loaded by LD_PRELOAD. $ROOFLINE_FAULTS names a control file (layout: shim.py) that is mapped and shared: rules
   can change while the process runs, and what they counted outlives it. Without the variable nothing is touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OFF, ERROR, SHORT, TORN, KILL_BEFORE, KILL_AFTER, DELAY };
enum { RULES = 8 };

struct rule {
    int32_t action, error;
    char call[16], pattern[128];
    int64_t skip, most, milliseconds, seen, fired;
};

struct control {
    int64_t realtime_offset_ns;
    struct rule rules[RULES];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("ROOFLINE_FAULTS");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED)
        control = mapped;
    close(descriptor);
}

#define REAL(name)                                                                                                     \
    static __typeof__(name) *real;                                                                                     \
    if (!real)                                                                                                         \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void end_here(void) {
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* What shall happen to a call on a path; waits, and ends the process, here. */
static const struct rule *chosen(const char *call, const char *path) {
    for (struct rule *rule = control->rules; rule < control->rules + RULES; rule++) {
        if (rule->action == OFF || strcmp(rule->call, call) || fnmatch(rule->pattern, path, 0))
            continue;
        int64_t number = __atomic_fetch_add(&rule->seen, 1, __ATOMIC_SEQ_CST);
        if (number < rule->skip || number - rule->skip >= rule->most)
            continue;
        __atomic_fetch_add(&rule->fired, 1, __ATOMIC_SEQ_CST);
        if (rule->action == KILL_BEFORE)
            end_here();
        if (rule->action == DELAY) {
            struct timespec wait = {rule->milliseconds / 1000, rule->milliseconds % 1000 * 1000000};
            nanosleep(&wait, NULL);
        }
        return rule;
    }
    return NULL;
}

static int is_armed(void) {
    if (control)
        for (int at = 0; at < RULES; at++)
            if (control->rules[at].action != OFF)
                return 1;
    return 0;
}

static const struct rule *chosen_of(const char *call, int descriptor) {
    char link[32], path[4096];
    if (!is_armed())
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0 || path[0] != '/') /* a socket or a pipe */
        return NULL;
    path[size] = 0;
    return chosen(call, path);
}

/* Errors that stand for a call: what is `return`ed in the place of it. */
#define MAY_FAIL(rule)                                                                                                 \
    if ((rule) && (rule)->action == ERROR) {                                                                           \
        errno = (rule)->error;                                                                                         \
        return -1;                                                                                                     \
    }

#define DONE(rule)                                                                                                     \
    if ((rule) && ((rule)->action == KILL_AFTER || (rule)->action == TORN))                                            \
        end_here()

static size_t cut(const struct rule *rule, size_t size) {
    return rule && (rule->action == SHORT || rule->action == TORN) && size > 1 ? size / 2 : size;
}

#define WRITE_LIKE(name, call, parameters, arguments)                                                                  \
    ssize_t name parameters {                                                                                          \
        REAL(name);                                                                                                    \
        const struct rule *rule = chosen_of(call, descriptor);                                                         \
        MAY_FAIL(rule)                                                                                                 \
        size = cut(rule, size);                                                                                        \
        ssize_t done = real arguments;                                                                                 \
        DONE(rule);                                                                                                    \
        return done;                                                                                                   \
    }

WRITE_LIKE(write, "write", (int descriptor, const void *data, size_t size), (descriptor, data, size))
WRITE_LIKE(pwrite, "write", (int descriptor, const void *data, size_t size, off_t at),
           (descriptor, data, size, at))
WRITE_LIKE(pwrite64, "write", (int descriptor, const void *data, size_t size, off64_t at),
           (descriptor, data, size, at))
WRITE_LIKE(read, "read", (int descriptor, void *data, size_t size), (descriptor, data, size))
WRITE_LIKE(pread, "read", (int descriptor, void *data, size_t size, off_t at), (descriptor, data, size, at))
WRITE_LIKE(pread64, "read", (int descriptor, void *data, size_t size, off64_t at), (descriptor, data, size, at))

#define ON_DESCRIPTOR(name, call, parameters, arguments)                                                               \
    int name parameters {                                                                                              \
        REAL(name);                                                                                                    \
        const struct rule *rule = chosen_of(call, descriptor);                                                         \
        MAY_FAIL(rule)                                                                                                 \
        int result = real arguments;                                                                                   \
        DONE(rule);                                                                                                    \
        return result;                                                                                                 \
    }

ON_DESCRIPTOR(fsync, "sync", (int descriptor), (descriptor))
ON_DESCRIPTOR(fdatasync, "sync", (int descriptor), (descriptor))
ON_DESCRIPTOR(ftruncate, "truncate", (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(ftruncate64, "truncate", (int descriptor, off64_t size), (descriptor, size))

#define ON_PATH(name, call, parameters, arguments)                                                                     \
    int name parameters {                                                                                              \
        REAL(name);                                                                                                    \
        const struct rule *rule = is_armed() ? chosen(call, path) : NULL;                                              \
        MAY_FAIL(rule)                                                                                                 \
        int result = real arguments;                                                                                   \
        DONE(rule);                                                                                                    \
        return result;                                                                                                 \
    }

ON_PATH(rename, "rename", (const char *path, const char *to), (path, to))
ON_PATH(renameat, "rename", (int from, const char *path, int into, const char *to), (from, path, into, to))
ON_PATH(unlink, "unlink", (const char *path), (path))
ON_PATH(unlinkat, "unlink", (int folder, const char *path, int flags), (folder, path, flags))
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode))

/* Both of these take a mode only where they create. */
#define OPEN_LIKE(name)                                                                                                \
    int name(const char *path, int flags, ...) {                                                                       \
        REAL(name);                                                                                                    \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        int creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;                                           \
        mode_t mode = creates ? va_arg(more, mode_t) : 0;                                                              \
        va_end(more);                                                                                                  \
        const struct rule *rule = is_armed() ? chosen("open", path) : NULL;                                            \
        MAY_FAIL(rule)                                                                                                 \
        int result = real(path, flags, mode);                                                                          \
        DONE(rule);                                                                                                    \
        return result;                                                                                                 \
    }

OPEN_LIKE(open)
OPEN_LIKE(open64)

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME && control && control->realtime_offset_ns) {
        int64_t sum = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + control->realtime_offset_ns;
        now->tv_sec = sum / 1000000000, now->tv_nsec = sum % 1000000000;
    }
    return result;
}
