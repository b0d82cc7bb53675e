/* System calls that fail when told to: loaded before the C library (LD_PRELOAD), for the crash tests of the stores.

   Calls that change files are counted from faults_arm() on; the one with the number `at` among the kinds in `kinds`
   fails as `action` says. Calls on the descriptor `spared`, and in processes that never armed, pass. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { PASS, KILL, TEAR, FAIL, SHORTEN, STOP }; /* tear: write half of it, then kill; stop: SIGSTOP, then go on */
#define MOST 65536

static int armed, action, error, spared = -1;
static long at, met, seen_count;
static char kinds[32], seen[MOST];

void faults_arm(const char *which, long number, int what, int code, int spare) {
    strncpy(kinds, which, sizeof kinds - 1);
    at = number; action = what; error = code; spared = spare;
    met = seen_count = 0;
    armed = 1;
}

void faults_disarm(void) { armed = 0; }

/* The kinds of all calls since arming, one letter each; '!' is one on the spared descriptor. */
const char *faults_seen(void) { seen[seen_count] = 0; return seen; }

/* What is to happen to this call: w write, s sync, t truncate, r rename, u unlink, o open, m make a folder. */
static int due(char kind, int descriptor) {
    if (!armed) return PASS;
    int is_spared = descriptor >= 0 && descriptor == spared;
    if (seen_count < MOST - 1) seen[seen_count++] = is_spared ? '!' : kind;
    if (is_spared) return PASS;
    if (!strchr(kinds, kind) || ++met != at) return PASS;
    if (action == KILL) { kill(getpid(), SIGKILL); pause(); }
    if (action == STOP) { kill(getpid(), SIGSTOP); return PASS; }
    return action;
}

static void die(void) { kill(getpid(), SIGKILL); pause(); }

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define SIMPLE(kind, type, name, descriptor, parameters, arguments) \
    type name parameters { \
        REAL(name); \
        int what = due(kind, descriptor); \
        if (what == FAIL) { errno = error; return -1; } \
        type result = real arguments; \
        if (what == TEAR) die(); \
        return result; \
    }

#define WRITING(name, parameters, half, whole) \
    ssize_t name parameters { \
        REAL(name); \
        int what = due('w', descriptor); \
        if (what == FAIL) { errno = error; return -1; } \
        if (what == TEAR || what == SHORTEN) { ssize_t result = real half; if (what == TEAR) die(); return result; } \
        return real whole; \
    }

WRITING(write, (int descriptor, const void *content, size_t size), (descriptor, content, size > 1 ? size / 2 : size),
        (descriptor, content, size))
WRITING(pwrite, (int descriptor, const void *content, size_t size, off_t place),
        (descriptor, content, size > 1 ? size / 2 : size, place), (descriptor, content, size, place))
WRITING(pwrite64, (int descriptor, const void *content, size_t size, off64_t place),
        (descriptor, content, size > 1 ? size / 2 : size, place), (descriptor, content, size, place))
SIMPLE('s', int, fsync, descriptor, (int descriptor), (descriptor))
SIMPLE('s', int, fdatasync, descriptor, (int descriptor), (descriptor))
SIMPLE('t', int, ftruncate, descriptor, (int descriptor, off_t size), (descriptor, size))
SIMPLE('t', int, ftruncate64, descriptor, (int descriptor, off64_t size), (descriptor, size))
SIMPLE('r', int, rename, -1, (const char *old, const char *new), (old, new))
SIMPLE('r', int, renameat, -1, (int from, const char *old, int to, const char *new), (from, old, to, new))
SIMPLE('u', int, unlink, -1, (const char *path), (path))
SIMPLE('m', int, mkdir, -1, (const char *path, mode_t mode), (path, mode))

/* Opening without O_CREAT changes nothing, and is not counted. */
#define OPENING(name, before, arguments) \
    int name(before const char *path, int flags, ...) { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        int what = flags & O_CREAT ? due('o', -1) : PASS; \
        if (what == FAIL) { errno = error; return -1; } \
        int result = real arguments; \
        if (what == TEAR) die(); \
        return result; \
    }
#define NOTHING
#define FOLDER int folder,

OPENING(open, NOTHING, (path, flags, mode))
OPENING(open64, NOTHING, (path, flags, mode))
OPENING(openat, FOLDER, (folder, path, flags, mode))
OPENING(openat64, FOLDER, (folder, path, flags, mode))
