/* LD_PRELOAD: calls on the files of a job are counted, noted in a log, and one of them fails as it is told.
 *
 * FAULTS_OF_TESTS has a setting per line: `inputs`, `run` (folders), `log` (a file), `contents` (1: flushes are logged
 * with what the file holds), and for a fault `calls`, `kinds` (names with commas between them), `nth` (from 1),
 * `until` (the last call that fails, 0 for all that follow) and `error` (an errno, -1 for a short transfer, -2 for
 * SIGKILL before the call, or -3 for SIGSTOP after it). Only the leader of a session is disturbed, not what it starts. All calls go to the kernel
 * itself, so that none is counted twice.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char inputs[PATH_MAX], run[PATH_MAX], log_path[PATH_MAX], calls[512], kinds[128];
static long nth, until, fault, contents, count;
static pid_t owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take(const char *name, const char *value) {
    struct { const char *name; char *text; size_t size; } texts[] = {
        {"inputs", inputs, sizeof inputs}, {"run", run, sizeof run}, {"log", log_path, sizeof log_path},
        {"calls", calls, sizeof calls}, {"kinds", kinds, sizeof kinds}};
    struct { const char *name; long *number; } numbers[] = {
        {"nth", &nth}, {"until", &until}, {"error", &fault}, {"contents", &contents}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(name, texts[i].name)) snprintf(texts[i].text, texts[i].size, "%s", value);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].name)) *numbers[i].number = atol(value);
}

/* Whether this process is disturbed; its settings come after the fork, with its environment. */
static int is_on(void) {
    pid_t self = (pid_t)syscall(SYS_getpid);
    if (owner) return owner == self;
    const char *all = getenv("FAULTS_OF_TESTS");
    if (!all || syscall(SYS_getsid, 0) != self) return 0;
    char *copy = strdup(all), *rest = copy, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        if (value) { *value = 0; take(line, value + 1); }
    }
    free(copy);
    owner = self;
    return 1;
}

static int below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static const char *kind_of(const char *path) {
    if (below(path, inputs)) return "INPUT";
    if (!below(path, run)) return NULL;
    const char *state = strstr(path + strlen(run), ".prepcli");
    if (!state) return "OUT";
    return strstr(state, "/tmp/") ? "TMP" : "STATE";
}

static const char *path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    char *deleted = strstr(path, " (deleted)");
    if (deleted && !deleted[10]) *deleted = 0;
    return kind_of(path);
}

static const char *path_at(int folder, const char *name, char *path) {
    char base[PATH_MAX] = "";
    if (name[0] != '/') {
        if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) return NULL; }
        else path_of(folder, base);
        snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
    } else snprintf(path, PATH_MAX, "%s", name);
    size_t length = strlen(path);
    if (length > 1 && path[length - 1] == '/') path[length - 1] = 0;
    return kind_of(path);
}

static int has(const char *names, const char *name) {
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += length)
        if ((at == names || at[-1] == ',') && (!at[length] || at[length] == ',')) return 1;
    return 0;
}

/* The error that this call meets, 0 for none. */
static int strike(const char *call, const char *kind) {
    if (!fault || !has(calls, call) || !has(kinds, kind)) return 0;
    count++;
    if (count < nth || (until && count > until)) return 0;
    if (fault == -2) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    return (int)fault;
}

static void put(int file, const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t done = syscall(SYS_write, file, at, size);
        if (done <= 0) _exit(99);
        at += done; size -= done;
    }
}

/* A line of the log, and what the file holds now if `whole` names it. */
static void note(const char *call, const char *kind, int error, const char *path, const char *other, const char *whole) {
    int saved = errno;
    struct stat found = {0};
    char head[3 * PATH_MAX], *data = NULL;
    size_t size = 0, room = 0;
    if (!log_path[0]) return;
    fstatat(AT_FDCWD, whole ? whole : path, &found, whole ? 0 : AT_SYMLINK_NOFOLLOW);
    if (whole && contents && S_ISREG(found.st_mode)) {
        int file = (int)syscall(SYS_openat, AT_FDCWD, whole, O_RDONLY | O_CLOEXEC, 0);
        for (ssize_t got = 1; file >= 0 && got > 0; size += got > 0 ? got : 0) {
            if (room - size < 65536) data = realloc(data, room = 2 * room + 65536);
            got = syscall(SYS_read, file, data + size, room - size);
        }
        if (file >= 0) syscall(SYS_close, file);
    }
    int length = snprintf(head, sizeof head, "%s\t%s\t%d\t%d\t%lu\t%lld\t%zu\t%s\t%s\n", call, kind, error,
                          S_ISDIR(found.st_mode), (unsigned long)found.st_ino,
                          (long long)found.st_mtim.tv_sec * 1000000000LL + found.st_mtim.tv_nsec, size, path,
                          other ? other : "");
    int log = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    put(log, head, (size_t)length);
    put(log, data, size);
    syscall(SYS_close, log);
    free(data);
    errno = saved;
}

/* A call on `kind`: `act` is done unless it fails; `wanted` bytes may be cut short. */
#define DISTURBED(call, kind, wanted, path, other, whole, act)                                        \
    do {                                                                                              \
        pthread_mutex_lock(&lock);                                                                    \
        int struck = strike(call, kind);                                                              \
        if (struck > 0) { errno = struck; result = -1; }                                              \
        else {                                                                                        \
            if (struck == -1 && wanted > 1) wanted /= 2;                                              \
            result = act;                                                                             \
            if (struck == -3) syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);                        \
        }                                                                                             \
        note(call, kind, result < 0 ? errno : 0, path, other, whole);                                 \
        pthread_mutex_unlock(&lock);                                                                  \
    } while (0)

static ssize_t transfer(const char *call, long number, int file, void *data, size_t size, long offset) {
    char path[PATH_MAX];
    const char *kind;
    ssize_t result;
    int is_input = !strstr(call, "write");
    if (!is_on() || !(kind = path_of(file, path)) || (is_input && strcmp(kind, "INPUT") && strcmp(kind, "OUT")))
        return syscall(number, file, data, size, offset);
    DISTURBED(call, kind, size, path, NULL, NULL, syscall(number, file, data, size, offset));
    return result;
}

ssize_t read(int file, void *data, size_t size) { return transfer("read", SYS_read, file, data, size, 0); }
ssize_t __read_chk(int file, void *data, size_t size, size_t room) { (void)room; return read(file, data, size); }
ssize_t write(int file, const void *data, size_t size) {
    return transfer("write", SYS_write, file, (void *)data, size, 0);
}
ssize_t pread(int file, void *data, size_t size, off_t offset) {
    return transfer("pread", SYS_pread64, file, data, size, offset);
}
ssize_t pread64(int file, void *data, size_t size, off64_t offset) { return pread(file, data, size, offset); }
ssize_t __pread_chk(int file, void *data, size_t size, off_t offset, size_t room) {
    (void)room;
    return pread(file, data, size, offset);
}
ssize_t __pread64_chk(int file, void *data, size_t size, off64_t offset, size_t room) {
    (void)room;
    return pread(file, data, size, offset);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    return transfer("pwrite", SYS_pwrite64, file, (void *)data, size, offset);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) { return pwrite(file, data, size, offset); }

static ssize_t vector(const char *call, long number, int file, const struct iovec *parts, int num_parts) {
    char path[PATH_MAX];
    const char *kind;
    ssize_t result;
    if (!is_on() || !(kind = path_of(file, path)) || (call[0] == 'r' && strcmp(kind, "INPUT") && strcmp(kind, "OUT")))
        return syscall(number, file, parts, num_parts);
    struct iovec *cut = malloc(sizeof *parts * (size_t)num_parts);
    size_t size = 0;
    for (int i = 0; i < num_parts; i++) size += (cut[i] = parts[i]).iov_len;
    size_t all = size;
    pthread_mutex_lock(&lock);
    int struck = strike(call, kind);
    if (struck > 0) { errno = struck; result = -1; }
    else {
        if (struck < 0 && all > 1) size = all / 2;
        for (int i = 0; i < num_parts; i++) {
            if (cut[i].iov_len > size) cut[i].iov_len = size;
            size -= cut[i].iov_len;
        }
        result = syscall(number, file, cut, num_parts);
    }
    note(call, kind, result < 0 ? errno : 0, path, NULL, NULL);
    pthread_mutex_unlock(&lock);
    free(cut);
    return result;
}
ssize_t readv(int file, const struct iovec *parts, int n) { return vector("read", SYS_readv, file, parts, n); }
ssize_t writev(int file, const struct iovec *parts, int n) { return vector("writev", SYS_writev, file, parts, n); }

static int flush(long number, int file) {
    char path[PATH_MAX], link[64];
    const char *kind;
    int result;
    size_t none = 0;
    if (!is_on() || !(kind = path_of(file, path))) return (int)syscall(number, file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    DISTURBED("fsync", kind, none, path, NULL, link, (int)syscall(number, file));
    return result;
}
int fsync(int file) { return flush(SYS_fsync, file); }
int fdatasync(int file) { return flush(SYS_fdatasync, file); }

static int flushed_by_all(const char *path, const struct stat *found, int type, struct FTW *place) {
    (void)found; (void)type; (void)place;
    const char *kind = kind_of(path);
    if (kind) note("fsync", kind, 0, path, NULL, path);
    return 0;
}
static void note_all(void) {
    pthread_mutex_lock(&lock);
    nftw(run, flushed_by_all, 16, FTW_PHYS);
    pthread_mutex_unlock(&lock);
}
void sync(void) { syscall(SYS_sync); if (is_on()) note_all(); }
int syncfs(int file) { int result = (int)syscall(SYS_syncfs, file); if (is_on()) note_all(); return result; }

static int open_any(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    const char *kind;
    int result, writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT;
    size_t none = 0;
    if (!writes || !is_on() || !(kind = path_at(folder, name, path)) || !strcmp(kind, "INPUT"))
        return (int)syscall(SYS_openat, folder, name, flags, mode);
    struct stat before;
    int is_new = fstatat(AT_FDCWD, path, &before, 0) != 0 && (flags & O_TMPFILE) != O_TMPFILE;
    const char *what = is_new ? "new" : flags & O_TRUNC ? "cut" : "old";
    DISTURBED("open", kind, none, path, what, NULL, (int)syscall(SYS_openat, folder, name, flags, mode));
    return result;
}
#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *name, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags) return open_any(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags) return open_any(folder, name, flags, mode); }
int creat(const char *name, mode_t mode) { return open_any(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static int change(const char *call, long number, int folder, const char *name, long third, long fourth, long fifth,
                  const char *other) {
    char path[PATH_MAX];
    const char *kind;
    int result;
    size_t none = 0;
    if (!is_on() || !(kind = path_at(folder, name, path)))
        return (int)syscall(number, folder, name, third, fourth, fifth);
    DISTURBED(call, kind, none, path, other, NULL, (int)syscall(number, folder, name, third, fourth, fifth));
    return result;
}
static int two(const char *call, long number, int folder, const char *name, int to, const char *target, int flags) {
    char other[PATH_MAX];
    if (!is_on()) return (int)syscall(number, folder, name, to, target, flags);
    path_at(to, target, other);
    return change(call, number, folder, name, to, (long)target, flags, other);
}
int rename(const char *a, const char *b) { return two("rename", SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 0); }
int renameat(int f, const char *a, int t, const char *b) { return two("rename", SYS_renameat2, f, a, t, b, 0); }
int renameat2(int f, const char *a, int t, const char *b, unsigned flags) {
    return two("rename", SYS_renameat2, f, a, t, b, (int)flags);
}
int link(const char *a, const char *b) { return two("link", SYS_linkat, AT_FDCWD, a, AT_FDCWD, b, 0); }
int linkat(int f, const char *a, int t, const char *b, int flags) { return two("link", SYS_linkat, f, a, t, b, flags); }
int mkdir(const char *name, mode_t mode) { return change("mkdir", SYS_mkdirat, AT_FDCWD, name, mode, 0, 0, NULL); }
int mkdirat(int f, const char *name, mode_t mode) { return change("mkdir", SYS_mkdirat, f, name, mode, 0, 0, NULL); }
int unlink(const char *name) { return change("unlink", SYS_unlinkat, AT_FDCWD, name, 0, 0, 0, NULL); }
int rmdir(const char *name) { return change("rmdir", SYS_unlinkat, AT_FDCWD, name, AT_REMOVEDIR, 0, 0, NULL); }
int unlinkat(int f, const char *name, int flags) {
    return change(flags & AT_REMOVEDIR ? "rmdir" : "unlink", SYS_unlinkat, f, name, flags, 0, 0, NULL);
}

int ftruncate(int file, off_t length) {
    char path[PATH_MAX];
    const char *kind;
    int result;
    size_t none = 0;
    if (!is_on() || !(kind = path_of(file, path))) return (int)syscall(SYS_ftruncate, file, length);
    DISTURBED("ftruncate", kind, none, path, NULL, NULL, (int)syscall(SYS_ftruncate, file, length));
    return result;
}
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *place, size_t size, unsigned flags) {
    char path[PATH_MAX];
    const char *kind;
    ssize_t result;
    if (!is_on() || !(kind = path_of(to, path)))
        return syscall(SYS_copy_file_range, from, at, to, place, size, flags);
    DISTURBED("copy", kind, size, path, NULL, NULL, syscall(SYS_copy_file_range, from, at, to, place, size, flags));
    return result;
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    char path[PATH_MAX];
    const char *kind;
    ssize_t result;
    if (!is_on() || !(kind = path_of(to, path))) return syscall(SYS_sendfile, to, from, at, size);
    DISTURBED("copy", kind, size, path, NULL, NULL, syscall(SYS_sendfile, to, from, at, size));
    return result;
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) { return sendfile(to, from, at, size); }
