// The machine and the build that figures come from, in one line.
#pragma once

#include <sched.h>
#include <sys/utsname.h>

#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>

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

inline constexpr unsigned last_cpu = CPU_SETSIZE - 1;

inline void pin_to(std::optional<unsigned> cpu) {
    if (!cpu) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(*cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        throw std::runtime_error(fmt::format("cannot run on CPU {}", *cpu));
}

}  // namespace bench
