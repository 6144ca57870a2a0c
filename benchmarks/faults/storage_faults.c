/* Preloaded into the campaign: counts what a process changes below one folder, and kills or stops it at the n-th change.
   A change is an opened new file, a write, a sync, a truncation, a new name, a removal or a new folder. A kill at a write
   leaves the pages of about its first half, since the kernel looks for signals between pages; every other change is not
   made. Libraries that write in C (HDF5) are seen too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KILL = 1, STOP = 2, PAGE = 4096 };
static char folder[PATH_MAX];
static size_t length;
static long when;
static int what;
static atomic_long count;

void faults_arm(const char *path, long at, int action) {
    count = 0;
    when = at;
    what = action;
    strncpy(folder, path, sizeof folder - 1);
    length = strlen(folder);
}

long faults_count(void) { return count; }

static int below(const char *path) {
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int descriptor_below(int fd) {
    char link[64], path[PATH_MAX];
    ssize_t size;
    if (!length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return below(path);
}

static int path_below(int fd, const char *path) {
    char whole[2 * PATH_MAX], base[PATH_MAX];
    if (!length) return 0;
    if (path[0] == '/') return below(path);
    if (fd != AT_FDCWD) return descriptor_below(fd);
    if (!getcwd(base, sizeof base)) return 0;
    snprintf(whole, sizeof whole, "%s/%s", base, path);
    return below(whole);
}

static int due(void) {
    if (++count != when) return 0;
    if (what == STOP) {
        raise(SIGSTOP);
        return 0;
    }
    return 1;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* The bytes of a write that a kill leaves: up to the border of a page that is next to their middle. */
static size_t first_pages(off_t start, size_t size) {
    off_t border = (start + (off_t)size / 2) / PAGE * PAGE;
    return border > start ? (size_t)(border - start) : 0;
}

#define WRITING(name, place, extra, given)                                                       \
    ssize_t name(int fd, const void *bytes, size_t size extra) {                          \
        REAL(name);                                                                       \
        if (descriptor_below(fd) && due()) {                                              \
            if ((size = first_pages(place, size))) (void)!real(fd, bytes, size given);     \
            die();                                                                        \
        }                                                                                 \
        return real(fd, bytes, size given);                                               \
    }
#define COMMA ,
WRITING(write, lseek(fd, 0, SEEK_CUR), , )
WRITING(pwrite, at, COMMA off_t at, COMMA at)
WRITING(pwrite64, at, COMMA off64_t at, COMMA at)

#define ON_DESCRIPTOR(name, extra, given)             \
    int name(int fd extra) {                          \
        REAL(name);                                   \
        if (descriptor_below(fd) && due()) die();     \
        return real(fd given);                        \
    }
ON_DESCRIPTOR(fsync, , )
ON_DESCRIPTOR(fdatasync, , )
ON_DESCRIPTOR(ftruncate, COMMA off_t size, COMMA size)
ON_DESCRIPTOR(ftruncate64, COMMA off64_t size, COMMA size)

#define ON_PATH(name, before, fd, extra, given)                         \
    int name(before const char *path extra) {                           \
        REAL(name);                                                     \
        if (path_below(fd, path) && due()) die();                       \
        return real given;                                              \
    }
ON_PATH(unlink, , AT_FDCWD, , (path))
ON_PATH(unlinkat, int at COMMA, at, COMMA int flags, (at, path, flags))
ON_PATH(mkdir, , AT_FDCWD, COMMA mode_t mode, (path, mode))
ON_PATH(mkdirat, int at COMMA, at, COMMA mode_t mode, (at, path, mode))
ON_PATH(rename, , AT_FDCWD, COMMA const char *to, (path, to))
ON_PATH(renameat, int at COMMA, at, COMMA int other COMMA const char *to, (at, path, other, to))

#define OPENING(name, before, fd, given)                                                   \
    int name(before const char *path, int flags, ...) {                                    \
        REAL(name);                                                                        \
        mode_t mode = 0;                                                                   \
        if (flags & (O_CREAT | O_TMPFILE)) {                                               \
            va_list rest;                                                                  \
            va_start(rest, flags);                                                         \
            mode = va_arg(rest, mode_t);                                                   \
            va_end(rest);                                                                  \
        }                                                                                  \
        if ((flags & (O_CREAT | O_TRUNC)) && path_below(fd, path) && due()) die();         \
        return real given;                                                                 \
    }
OPENING(open, , AT_FDCWD, (path, flags, mode))
OPENING(open64, , AT_FDCWD, (path, flags, mode))
OPENING(openat, int at COMMA, at, (at, path, flags, mode))
OPENING(openat64, int at COMMA, at, (at, path, flags, mode))
