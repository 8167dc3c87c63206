// A part of a test in a process of its own: to be stopped, traced, or moved to another namespace.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <utility>

#include "support/check.hpp"

namespace support {

// The process that runs `body`, which returns what is wrong, or null. It says so on stderr, and
// ends without the test framework noticing.
template <class F> pid_t start_child(F body) {
    const pid_t child = fork();
    if (child != 0) return child;
    const char* wrong = "an exception";
    try {
        wrong = body();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
    }
    if (wrong != nullptr) std::fprintf(stderr, "child: %s\n", wrong);
    _exit(wrong != nullptr);
}

// Waits for its end. Returns whether nothing was wrong.
inline bool ended_well(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace support
