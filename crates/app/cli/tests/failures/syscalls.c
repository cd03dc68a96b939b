/* Runs a command whose n-th system call of a class fails, counted over all of its processes.
 * Usage: syscalls CLASS N ERRNO FILE COMMAND...; the number of calls goes to FILE.
 * A seccomp filter sends the class's calls to this process, which lets them continue or fail.
 * Counting starts when Rust's start-up code has set an alternative stack. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int WRITES[] = {SYS_write, SYS_pwrite64, SYS_writev, SYS_fsync, SYS_fdatasync,
                             SYS_ftruncate, SYS_fallocate};
static const int OTHERS[] = {SYS_openat, SYS_mkdir, SYS_rename, SYS_unlink, SYS_unlinkat,
                             SYS_mkdirat, SYS_renameat2, SYS_read, SYS_pread64, SYS_lseek, SYS_flock,
                             SYS_statx, SYS_newfstatat, SYS_fstat, SYS_getdents64, SYS_mmap,
                             SYS_clone3, SYS_clone, SYS_fork, SYS_socket, SYS_socketpair, SYS_pipe2,
                             SYS_ioctl, SYS_mount, SYS_unshare, SYS_setns, SYS_sendto, SYS_sendmsg,
                             SYS_fcntl, SYS_dup2, SYS_prctl, SYS_epoll_ctl, SYS_epoll_create1,
                             SYS_waitid, SYS_pidfd_open, SYS_execve, SYS_getrandom, SYS_setsid};


static void child(const int *calls, int count, char **command) {
    struct sock_filter filter[256];
    int at = 0;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                offsetof(struct seccomp_data, nr));
    for (int i = -2; i < count; i++) {
        int call = i == -2 ? SYS_sigaltstack : i == -1 ? SYS_execve : calls[i];
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {at, filter};
    if (getuid() != 0) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &program) < 0)
        _exit(122);
    /* Waits until the parent has the listener. */
    execvp(command[0], command);
    _exit(123);
}

/* The child's listener, which it cannot send by itself any more. */
static int take_listener(pid_t pid) {
    int pidfd = syscall(SYS_pidfd_open, pid, 0);
    while (kill(pid, 0) == 0 && waitpid(pid, NULL, WNOHANG) == 0) {
        for (int fd = 3; fd < 64; fd++) {
            char path[64], target[64] = "";
            snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
            if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "seccomp notify"))
                return syscall(SYS_pidfd_getfd, pidfd, fd, 0);
        }
        usleep(200);
    }
    return -1;
}

static int is_counted(const int *calls, int count, int call) {
    for (int i = 0; i < count; i++)
        if (calls[i] == call) return 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 6) return 124;
    int writes = !strcmp(argv[1], "writes");
    const int *calls = writes ? WRITES : OTHERS;
    int count = (writes ? sizeof WRITES : sizeof OTHERS) / sizeof(int);
    long n = atol(argv[2]), seen = 0;
    int started = 0, status = 0, error = atoi(argv[3]);
    pid_t pid = fork();
    if (pid == 0) child(calls, count, argv + 5);
    int listener = take_listener(pid);
    if (listener < 0) return 125;
    for (;;) {
        struct pollfd wait = {listener, POLLIN, 0};
        struct seccomp_notif request = {0};
        if (poll(&wait, 1, -1) < 0 && errno != EINTR) break;
        if (!(wait.revents & POLLIN)) {
            if (wait.revents & POLLHUP) break; /* No process has the filter any more. */
            continue;
        }
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request)) continue;
        struct seccomp_notif_resp answer = {.id = request.id,
                                            .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        started |= request.data.nr == SYS_sigaltstack && request.data.args[0];
        if (started && is_counted(calls, count, request.data.nr) && ++seen == n) {
            answer.flags = 0;
            answer.error = -error;
        }
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    waitpid(pid, &status, 0);
    FILE *file = fopen(argv[4], "w");
    if (file) {
        fprintf(file, "%ld\n", seen);
        fclose(file);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
