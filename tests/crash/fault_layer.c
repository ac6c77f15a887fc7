/* Faults of a disk, injected between a process and its store (LD_PRELOAD).
 *
 * Every write, sync and truncation of a file whose path contains COTERIE_FAULT_PATH is
 * counted. The test arms the layer through a file that both map: the call with number
 * `at` (from now on) fails with `code`, and so do the `times` - 1 calls after it. A write
 * that fails leaves its first half on the disk, as a torn page.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* Return the error of this call, or 0. */
static int fault(int fd) {
    char link[64], path[PATH_MAX];
    if (!control) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
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

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *from, size_t size) {
    int code = fault(fd);
    if (!code) return REAL(write)(fd, from, size);
    if (REAL(write)(fd, from, size / 2) < 0) { /* as far as it goes */ }
    errno = code;
    return -1;
}

ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
    int code = fault(fd);
    if (!code) return REAL(pwrite64)(fd, from, size, at);
    if (REAL(pwrite64)(fd, from, size / 2, at) < 0) { /* as far as it goes */ }
    errno = code;
    return -1;
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    return pwrite64(fd, from, size, at);
}

#define SIMPLE(name, parameters, arguments)          \
    int name parameters {                            \
        int code = fault(fd);                        \
        if (!code) return REAL(name) arguments;      \
        errno = code;                                \
        return -1;                                   \
    }

SIMPLE(fsync, (int fd), (fd))
SIMPLE(fdatasync, (int fd), (fd))
SIMPLE(ftruncate, (int fd, off_t size), (fd, size))
SIMPLE(ftruncate64, (int fd, off64_t size), (fd, size))
