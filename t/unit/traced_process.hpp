// A child process that the test stops after any instruction, by ptrace(2).
#pragma once

#include <csignal>

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/// Whether the child has stopped and can be stepped.
inline bool is_stopped(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}

/// Starts a child that stops before it does the work.
template <typename Work>
pid_t start_traced(const Work &work) {
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
            _exit(1);
        }
        raise(SIGSTOP);
        work();
        _exit(0);
    }
    return child;
}

/// Lets the child do one instruction. Returns false if that was its end.
inline bool step(pid_t child) {
    return ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 && is_stopped(child);
}

/// Lets the child go on. Returns false if it has ended.
inline bool go_on(pid_t child) {
    return ptrace(PTRACE_CONT, child, nullptr, nullptr) == 0 && is_stopped(child);
}
