// Library for LD_PRELOAD that lets one call fail, or all from one on: those that create, write, cut, sync, close or
// rename files below a folder. fault_arm() counts from 0; fault_disarm() returns how many such calls there were.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kSpace = 1 };  // calls that a full disk refuses

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static long at = -1, n_calls;
static int code, is_full;  // is_full: from `at` on, every call that needs space fails

void fault_arm(const char* below, long number, int error, int full) {
  strncpy(folder, below, sizeof folder - 1);
  at = number, n_calls = 0, code = error, is_full = full;
}

long fault_disarm(void) {
  folder[0] = 0;
  return n_calls;
}

static int fails(const char* path, int needs_space) {
  const size_t n = strlen(folder);
  if (n == 0 || path == NULL || strncmp(path, folder, n) != 0) return 0;
  pthread_mutex_lock(&mutex);
  const long number = n_calls++;
  pthread_mutex_unlock(&mutex);
  if (is_full ? !needs_space || number < at : number != at) return 0;
  errno = code;
  return 1;
}

static int fd_fails(int fd, int needs_space) {
  if (folder[0] == 0) return 0;
  const int saved = errno;
  char link[32], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  errno = saved;
  if (n < 0) return 0;
  path[n] = 0;
  return fails(path, needs_space);
}

static int is_written(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

#define NEXT(type, name) ((type)(dlsym(RTLD_NEXT, name)))
#define ON_FD(result, name, space, parameters, arguments)                        \
  result name parameters {                                                        \
    static result(*real) parameters;                                              \
    if (real == NULL) real = NEXT(result(*) parameters, #name);                   \
    return fd_fails(fd, space) ? -1 : real arguments;                             \
  }
#define ON_PATH(name, space, path, parameters, arguments)                        \
  int name parameters {                                                           \
    static int(*real) parameters;                                                 \
    if (real == NULL) real = NEXT(int(*) parameters, #name);                      \
    return fails(path, space) ? -1 : real arguments;                              \
  }
#define ON_OPEN(name, first, parameters, arguments)                              \
  int name parameters {                                                           \
    static int(*real)(first, ...);                                                \
    if (real == NULL) real = NEXT(int (*)(first, ...), #name);                    \
    va_list rest;                                                                 \
    va_start(rest, flags);                                                        \
    const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                 \
    return flags & O_CREAT && fails(path, kSpace) ? -1 : real arguments;          \
  }

ON_FD(ssize_t, write, kSpace, (int fd, const void* from, size_t n), (fd, from, n))
ON_FD(ssize_t, pwrite, kSpace, (int fd, const void* from, size_t n, off_t to), (fd, from, n, to))
ON_FD(ssize_t, pwrite64, kSpace, (int fd, const void* from, size_t n, off64_t to), (fd, from, n, to))
ON_FD(ssize_t, writev, kSpace, (int fd, const struct iovec* parts, int n), (fd, parts, n))
ON_FD(ssize_t, pwritev, kSpace, (int fd, const struct iovec* parts, int n, off_t to), (fd, parts, n, to))
ON_FD(ssize_t, pwritev64, kSpace, (int fd, const struct iovec* parts, int n, off64_t to), (fd, parts, n, to))
ON_FD(int, fsync, kSpace, (int fd), (fd))
ON_FD(int, fdatasync, kSpace, (int fd), (fd))
ON_FD(int, ftruncate, kSpace, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, kSpace, (int fd, off64_t size), (fd, size))
ON_PATH(rename, 0, to, (const char* from, const char* to), (from, to))
ON_PATH(renameat2, 0, to, (int a, const char* from, int b, const char* to, unsigned flags), (a, from, b, to, flags))
ON_PATH(link, kSpace, to, (const char* from, const char* to), (from, to))
ON_PATH(mkdir, kSpace, path, (const char* path, mode_t mode), (path, mode))
ON_OPEN(open, const char*, (const char* path, int flags, ...), (path, flags, mode))
ON_OPEN(open64, const char*, (const char* path, int flags, ...), (path, flags, mode))

int openat(int base, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (flags & O_CREAT && fails(path, kSpace)) return -1;
  return NEXT(int (*)(int, const char*, int, ...), "openat")(base, path, flags, mode);
}

int close(int fd) {
  static int (*real)(int);
  if (real == NULL) real = NEXT(int (*)(int), "close");
  const int is_lost = is_written(fd) && fd_fails(fd, 0);
  const int result = real(fd);
  if (!is_lost) return result;
  errno = code;
  return -1;
}

// The C library writes its streams by calls of its own.
size_t fwrite(const void* from, size_t size, size_t n, FILE* file) {
  static size_t (*real)(const void*, size_t, size_t, FILE*);
  if (real == NULL) real = NEXT(size_t(*)(const void*, size_t, size_t, FILE*), "fwrite");
  return fd_fails(fileno(file), kSpace) ? 0 : real(from, size, n, file);
}

int fclose(FILE* file) {
  static int (*real)(FILE*);
  if (real == NULL) real = NEXT(int (*)(FILE*), "fclose");
  const int is_lost = is_written(fileno(file)) && fd_fails(fileno(file), 0);
  const int result = real(file);
  if (!is_lost) return result;
  errno = code;
  return EOF;
}
