/* Makes chosen system calls on chosen files fail, stop short, or end the process, for tests.

   Loaded by LD_PRELOAD. $ROOFLINE_FAULTS names a control file (layout: shim.py) that is mapped and shared: rules
   can change while the process runs, and what they counted outlives it. Without the variable nothing is touched.

   $ROOFLINE_JOURNAL names a file to which is added what a power cut would undo (layout: power.py), of the files
   below the folder $ROOFLINE_JOURNALED. */
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
#include <sys/syscall.h>
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

/* What happens to one call: a copy, as rules may change before it is done. */
struct effect {
    int32_t action, error;
};

static const struct effect NOTHING = {OFF, 0};
static struct control *control;

/* Before `size_path` bytes of a path and `size_kept` bytes that a write or truncation takes away. */
struct entry {
    int64_t what, at, size, size_before, size_path, size_kept;
};

static int journal = -1;
static const char *journaled;

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("ROOFLINE_FAULTS");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED)
        control = mapped;
    close(descriptor);
    path = getenv("ROOFLINE_JOURNAL"), journaled = getenv("ROOFLINE_JOURNALED");
    if (path && journaled)
        journal = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* Add an entry in one piece: threads do not mix theirs. */
static void note(char what, const char *path, int64_t at, int64_t size, int64_t size_before, int descriptor,
                 int64_t size_kept) {
    struct entry entry = {what, at, size, size_before, (int64_t)strlen(path), size_kept > 0 ? size_kept : 0};
    if (strncmp(path, journaled, strlen(journaled)))
        return;
    char *whole = malloc(sizeof entry + entry.size_path + entry.size_kept);
    char *kept = whole + sizeof entry + entry.size_path;
    memcpy(whole + sizeof entry, path, entry.size_path);
    if (entry.size_kept)
        entry.size_kept = syscall(SYS_pread64, descriptor, kept, entry.size_kept, at);
    memcpy(whole, &entry, sizeof entry);
    syscall(SYS_write, journal, whole, kept - whole + entry.size_kept);
    free(whole);
}

static int path_of(int descriptor, char path[4096]) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, 4095);
    path[size > 0 ? size : 0] = 0;
    return path[0] == '/'; /* not a socket or a pipe */
}

/* at: where it is written; -1: where the file stands. */
static void note_write(int descriptor, size_t size, int64_t at) {
    char path[4096];
    struct stat status;
    if (journal < 0 || !path_of(descriptor, path) || fstat(descriptor, &status))
        return;
    at = at < 0 ? lseek(descriptor, 0, SEEK_CUR) : at;
    int64_t there = status.st_size - at;
    note('W', path, at, size, status.st_size, descriptor, there < (int64_t)size ? there : (int64_t)size);
}

static void note_descriptor(char what, int descriptor, int64_t size) {
    char path[4096];
    struct stat status;
    if (journal < 0 || !path_of(descriptor, path) || fstat(descriptor, &status))
        return;
    note(what, path, size, 0, status.st_size, descriptor, what == 'T' ? status.st_size - size : 0);
}

static void note_path(char what, const char *path, const char *to) {
    char both[8192];
    if (journal < 0)
        return;
    snprintf(both, sizeof both, "%s\n%s", path, to);
    note(what, both, 0, 0, 0, -1, 0);
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

/* What shall happen to a call on a path; waits, and ends the process before it, here. */
static struct effect chosen(const char *call, const char *path) {
    for (struct rule *rule = control->rules; rule < control->rules + RULES; rule++) {
        if (rule->action == OFF || strcmp(rule->call, call) || fnmatch(rule->pattern, path, 0))
            continue;
        int64_t number = __atomic_fetch_add(&rule->seen, 1, __ATOMIC_SEQ_CST);
        if (number < rule->skip || number - rule->skip >= rule->most)
            continue;
        struct effect effect = {rule->action, rule->error};
        __atomic_fetch_add(&rule->fired, 1, __ATOMIC_SEQ_CST);
        if (effect.action == KILL_BEFORE)
            end_here();
        if (effect.action == DELAY) {
            struct timespec wait = {rule->milliseconds / 1000, rule->milliseconds % 1000 * 1000000};
            nanosleep(&wait, NULL);
        }
        return effect;
    }
    return NOTHING;
}

static int is_armed(void) {
    if (control)
        for (int at = 0; at < RULES; at++)
            if (control->rules[at].action != OFF)
                return 1;
    return 0;
}

static struct effect chosen_of(const char *call, int descriptor) {
    char path[4096];
    return is_armed() && path_of(descriptor, path) ? chosen(call, path) : NOTHING;
}

/* Errors that stand for a call: what is `return`ed in the place of it. */
#define MAY_FAIL(effect)                                                                                               \
    if ((effect).action == ERROR) {                                                                                    \
        errno = (effect).error;                                                                                        \
        return -1;                                                                                                     \
    }

#define DONE(effect)                                                                                                   \
    if ((effect).action == KILL_AFTER || (effect).action == TORN)                                                      \
        end_here()

static size_t cut(struct effect effect, size_t size) {
    return (effect.action == SHORT || effect.action == TORN) && size > 1 ? size / 2 : size;
}

#define DATA(name, call, noted, parameters, arguments)                                                                 \
    ssize_t name parameters {                                                                                          \
        REAL(name);                                                                                                    \
        struct effect effect = chosen_of(call, descriptor);                                                            \
        MAY_FAIL(effect)                                                                                               \
        size = cut(effect, size);                                                                                      \
        noted;                                                                                                         \
        ssize_t done = real arguments;                                                                                 \
        DONE(effect);                                                                                                  \
        return done;                                                                                                   \
    }

DATA(write, "write", note_write(descriptor, size, -1), (int descriptor, const void *data, size_t size),
     (descriptor, data, size))
DATA(pwrite, "write", note_write(descriptor, size, at), (int descriptor, const void *data, size_t size, off_t at),
     (descriptor, data, size, at))
DATA(pwrite64, "write", note_write(descriptor, size, at), (int descriptor, const void *data, size_t size, off64_t at),
     (descriptor, data, size, at))
DATA(read, "read", , (int descriptor, void *data, size_t size), (descriptor, data, size))
DATA(pread, "read", , (int descriptor, void *data, size_t size, off_t at), (descriptor, data, size, at))
DATA(pread64, "read", , (int descriptor, void *data, size_t size, off64_t at), (descriptor, data, size, at))

#define OTHER(name, call, chosen_effect, before, after, parameters, arguments)                                         \
    int name parameters {                                                                                              \
        REAL(name);                                                                                                    \
        struct effect effect = chosen_effect;                                                                          \
        MAY_FAIL(effect)                                                                                               \
        before;                                                                                                        \
        int result = real arguments;                                                                                   \
        if (result == 0)                                                                                               \
            after;                                                                                                     \
        DONE(effect);                                                                                                  \
        return result;                                                                                                 \
    }

#define ON_DESCRIPTOR(name, call, before, after, parameters, arguments)                                                \
    OTHER(name, call, chosen_of(call, descriptor), before, after, parameters, arguments)

ON_DESCRIPTOR(fsync, "sync", , note_descriptor('S', descriptor, 0), (int descriptor), (descriptor))
ON_DESCRIPTOR(fdatasync, "sync", , note_descriptor('S', descriptor, 0), (int descriptor), (descriptor))
ON_DESCRIPTOR(ftruncate, "truncate", note_descriptor('T', descriptor, size), (void)0, (int descriptor, off_t size),
              (descriptor, size))
ON_DESCRIPTOR(ftruncate64, "truncate", note_descriptor('T', descriptor, size), (void)0, (int descriptor, off64_t size),
              (descriptor, size))

#define ON_PATH(name, call, after, parameters, arguments)                                                              \
    OTHER(name, call, is_armed() ? chosen(call, path) : NOTHING, , after, parameters, arguments)

ON_PATH(rename, "rename", note_path('R', path, to), (const char *path, const char *to), (path, to))
ON_PATH(renameat, "rename", note_path('R', path, to), (int from, const char *path, int into, const char *to),
        (from, path, into, to))
ON_PATH(unlink, "unlink", note_path('U', path, ""), (const char *path), (path))
ON_PATH(unlinkat, "unlink", note_path('U', path, ""), (int folder, const char *path, int flags), (folder, path, flags))
ON_PATH(mkdir, "mkdir", (void)0, (const char *path, mode_t mode), (path, mode))

/* Both of these take a mode only where they create. */
#define OPEN_LIKE(name)                                                                                                \
    int name(const char *path, int flags, ...) {                                                                       \
        REAL(name);                                                                                                    \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        int creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;                                           \
        mode_t mode = creates ? va_arg(more, mode_t) : 0;                                                              \
        va_end(more);                                                                                                  \
        struct effect effect = is_armed() ? chosen("open", path) : NOTHING;                                            \
        MAY_FAIL(effect)                                                                                               \
        int result = real(path, flags, mode);                                                                          \
        DONE(effect);                                                                                                  \
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
