// The machine and the build that figures come from, in one line, and the place of a run on it.
#pragma once

#include <sched.h>
#include <sys/utsname.h>

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"

namespace bench {

inline std::string first_line_of(const char* file, const char* otherwise) {
    std::ifstream in(file);
    std::string text;
    return std::getline(in, text) ? text : otherwise;
}

inline std::string processor() {
    std::ifstream cpus("/proc/cpuinfo");
    for (std::string text; std::getline(cpus, text);)
        if (text.starts_with("model name")) return text.substr(text.find(':') + 2);
    return "unknown processor";
}

inline std::string compiler() {
#ifdef __clang__
    return fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#else
    return fmt::format("g++ {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
}

// BENCH_FLAGS is what meson compiles with.
inline std::string machine() {
    utsname system;
    uname(&system);
    return fmt::format(
        "{}; {} CPUs; governor {}; Linux {}; {} {}", processor(),
        std::thread::hardware_concurrency(),
        first_line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "unknown"),
        system.release, compiler(), BENCH_FLAGS);
}

// The options that keep others away from a run.
class placement {
public:
    void offer(example::command_line& options) {
        options.add_number("--cpu", cpu_, 0, CPU_SETSIZE - 1, "run on this CPU only");
        options.add_number("--fifo", priority_, 1, 99, "run with this priority of SCHED_FIFO");
    }
    void offer_with_pages(example::command_line& options) {
        offer(options);
        options.add_flag("--huge-pages", huge_pages, "ask for huge pages for the objects");
    }

    void take() const {
        if (cpu_) pin_to(*cpu_);
        const sched_param p{.sched_priority = static_cast<int>(priority_.value_or(0))};
        if (priority_ && sched_setscheduler(0, SCHED_FIFO, &p) != 0)
            throw std::runtime_error(fmt::format(
                "SCHED_FIFO with priority {} is not permitted: run as root, or without --fifo",
                *priority_));
    }

    bool huge_pages = false;

private:
    static void pin_to(unsigned cpu) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            throw std::runtime_error(fmt::format("cannot run on CPU {}", cpu));
    }

    std::optional<unsigned> cpu_;
    std::optional<unsigned> priority_;
};

}  // namespace bench
