// A part of a test in a process of its own: to be stopped, traced, or moved to another namespace.
#pragma once

#if defined(_WIN32) || defined(__EMSCRIPTEN__)

#include <string>

#include "support/check.hpp"

namespace support {

constexpr bool has_children = false;

// There are no children here: the test ends.
template <class F> std::string last_words(F) { throw everywhere::skipped(); }
template <class F> std::string said_by(F) { throw everywhere::skipped(); }

}  // namespace support

#else

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "support/check.hpp"

namespace support {

constexpr bool has_children = true;

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

// Reads until the end of the file.
inline std::string read_all(int fd) {
    std::string all;
    char part[512];
    for (ssize_t n = 0; (n = read(fd, part, sizeof part)) > 0;)
        all.append(part, static_cast<std::size_t>(n));
    close(fd);
    return all;
}

// The stderr of a process that runs `body`, and how the process ended.
struct testimony {
    std::string said;
    int status;
};

template <class F> testimony hear(F body) {
    int ends[2];
    if (pipe(ends) != 0) return {"no pipe", -1};
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    testimony heard{read_all(ends[0]), -1};
    if (waitpid(child, &heard.status, 0) != child) heard.status = -1;
    return heard;
}

// Returns the stderr of a process that runs `body`, if SIGABRT ended it; else the reason for having
// none. An emulator adds a line of its own to it.
template <class F> std::string last_words(F body) {
    const testimony heard = hear(body);
    const bool aborted = WIFSIGNALED(heard.status) && WTERMSIG(heard.status) == SIGABRT;
    if (!aborted) return "has not aborted";
    return heard.said.substr(0, heard.said.find("qemu: uncaught target signal"));
}

// Returns the stderr of a process that runs `body`, if it ended well.
template <class F> std::string said_by(F body) {
    const testimony heard = hear(body);
    return heard.status == 0 ? heard.said : "has not ended well: " + heard.said;
}

}  // namespace support

#endif
