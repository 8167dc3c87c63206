// One line on a terminal, with a bar; into a file a line now and then.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace bench {

class progress_line {
public:
    // `seconds` says when it is: in a file, half a minute passes between two lines.
    void show(double share_done, const std::string& words, double seconds) {
        if (is_terminal_) {
            const int filled = static_cast<int>(share_done * width);
            fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}\033[K", "", filled, "", width - filled,
                       words);
        } else if (seconds >= next_) {
            fmt::print(stderr, "{}\n", words);
            next_ = seconds + 30;
        }
    }
    void end() {
        if (is_terminal_) fmt::print(stderr, "\r\033[K");
    }

private:
    static constexpr int width = 20;
    const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
    double next_ = 0;
};

}  // namespace bench
