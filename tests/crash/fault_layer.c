/* Faults of a disk, injected between a process and its store (LD_PRELOAD).
 *
 * Every call that writes, syncs, truncates, allocates, creates, renames or removes a file
 * whose path contains COTERIE_FAULT_PATH is counted. The test arms the layer through a file that both map: the call with number
 * `at` (from now on) fails with `code`, and so do the `times` - 1 calls after it. A write
 * that fails leaves its first half on the disk, as a torn page. With KILL as `code`, the
 * process is killed at that call instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define KILL (-9)

struct control {
    _Atomic long long at, times, code, calls, failures;
};

static struct control *control;
static const char *part;

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("COTERIE_FAULT_CONTROL");
    part = getenv("COTERIE_FAULT_PATH");
    int fd = name && part ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map != MAP_FAILED) control = map;
}

/* Return the error of a call on this path, or 0. */
static int path_fault(const char *path) {
    if (!strstr(path, part)) return 0;
    control->calls++;
    if (control->at == 0) return 0;
    if (control->at > 1) {
        control->at--;
        return 0;
    }
    if (control->times-- <= 0) {
        control->at = 0;
        return 0;
    }
    control->failures++;
    return (int)control->code;
}

/* Return the error of a call on this file, or 0. */
static int fault(int fd) {
    char link[64], path[PATH_MAX];
    if (!control) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return path_fault(path);
}

/* Set errno; or die. */
static int fail(int code) {
    if (code == KILL) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = code;
    return -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *from, size_t size) {
    int code = fault(fd);
    if (!code) return REAL(write)(fd, from, size);
    if (REAL(write)(fd, from, size / 2) < 0) { /* as far as it goes */ }
    return fail(code);
}

ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
    int code = fault(fd);
    if (!code) return REAL(pwrite64)(fd, from, size, at);
    if (REAL(pwrite64)(fd, from, size / 2, at) < 0) { /* as far as it goes */ }
    return fail(code);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    return pwrite64(fd, from, size, at);
}

/* Write the first half of the pieces, as a torn page; at -1 at the file's position. */
static void write_half(int fd, const struct iovec *pieces, int count, off64_t at) {
    size_t left = 0;
    for (int i = 0; i < count; i++) left += pieces[i].iov_len;
    left /= 2;
    for (int i = 0; i < count && left; i++) {
        size_t size = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        ssize_t done = at < 0 ? REAL(write)(fd, pieces[i].iov_base, size)
                              : REAL(pwrite64)(fd, pieces[i].iov_base, size, at);
        if (done < (ssize_t)size) return;
        left -= size;
        if (at >= 0) at += size;
    }
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    int code = fault(fd);
    if (!code) return REAL(writev)(fd, pieces, count);
    write_half(fd, pieces, count, -1);
    return fail(code);
}

ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t at) {
    int code = fault(fd);
    if (!code) return REAL(pwritev64)(fd, pieces, count, at);
    write_half(fd, pieces, count, at);
    return fail(code);
}

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) {
    return pwritev64(fd, pieces, count, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off64_t at, int flags) {
    int code = fault(fd);
    if (!code) return REAL(pwritev64v2)(fd, pieces, count, at, flags);
    write_half(fd, pieces, count, at);
    return fail(code);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t at, int flags) {
    return pwritev64v2(fd, pieces, count, at, flags);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size,
                        unsigned flags) {
    int code = fault(to);
    if (!code) return REAL(copy_file_range)(from, from_at, to, to_at, size, flags);
    return fail(code);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
    int code = fault(to);
    if (!code) {
        ssize_t (*real)(int, int, off64_t *, size_t) = dlsym(RTLD_NEXT, "sendfile64");
        return real(to, from, at, size);
    }
    return fail(code);
}

#define SIMPLE(name, parameters, arguments, check)   \
    int name parameters {                            \
        int code = control ? check : 0;              \
        if (!code) return REAL(name) arguments;      \
        return fail(code);                           \
    }

SIMPLE(fsync, (int fd), (fd), fault(fd))
SIMPLE(fdatasync, (int fd), (fd), fault(fd))
SIMPLE(ftruncate, (int fd, off_t size), (fd, size), fault(fd))
SIMPLE(ftruncate64, (int fd, off64_t size), (fd, size), fault(fd))
SIMPLE(fallocate64, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size),
       fault(fd))
SIMPLE(rename, (const char *from, const char *to), (from, to), path_fault(to))
SIMPLE(renameat, (int in, const char *from, int out, const char *to), (in, from, out, to),
       path_fault(to))
SIMPLE(unlink, (const char *path), (path), path_fault(path))
SIMPLE(unlinkat, (int in, const char *path, int flags), (in, path, flags),
       path_fault(path))

/* These return the error, and do not set errno. */
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    int code = fault(fd);
    if (code == KILL) fail(code);
    return code ? code : REAL(posix_fallocate64)(fd, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size) {
    return posix_fallocate64(fd, at, size);
}

/* Only the creation of a file is counted: a file that exists can be opened. */
#define OPEN(name, parameters, arguments)                                \
    int name parameters {                                                \
        mode_t mode = 0;                                                 \
        if (flags & (O_CREAT | O_TMPFILE)) {                             \
            va_list more;                                                \
            va_start(more, flags);                                       \
            mode = va_arg(more, mode_t);                                 \
            va_end(more);                                                \
        }                                                                \
        if (control && flags & O_CREAT && access(path, F_OK)) {          \
            int code = path_fault(path);                                 \
            if (code) return fail(code);                                 \
        }                                                                \
        return REAL(name) arguments;                                     \
    }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int in, const char *path, int flags, ...), (in, path, flags, mode))
OPEN(openat64, (int in, const char *path, int flags, ...), (in, path, flags, mode))
