#include "tvec/extra/tsc_clock.hpp"

#include <cstdio>
#include <cstring>
#include <mutex>

#if defined __unix__
#include <pthread.h>
#endif
#if defined __x86_64__
#include <cpuid.h>
#endif

namespace tvec {

namespace {

std::int64_t steady() noexcept {
    const std::chrono::nanoseconds t = std::chrono::steady_clock::now().time_since_epoch();
    return t.count();
}

const char* find_refusal() noexcept {
#if !defined __x86_64__ && !defined __aarch64__
    return "no counter is known for this kind of processor";
#endif
#if defined __x86_64__
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & (1u << 8)) == 0)
        return "the counter of this processor is not invariant";
#endif
    static constinit char text[64] = "the kernel's clocksource is ";
    char* const source = text + std::strlen(text);
    if (std::FILE* const f =
            std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re")) {
        if (std::fgets(source, 32, f)) source[std::strcspn(source, "\n")] = 0;
        std::fclose(f);
    }
    if (*source == 0) return "the kernel's clocksource is unknown: /sys cannot be read";
    return std::strstr("tsc arch_sys_counter", source) ? nullptr : text;
}

constexpr const char* unknown = "not looked for yet";

/// Made by the first call where the constructor is no constant expression: in mingw-w64.
std::mutex& one_at_a_time() {
    static std::mutex mutex;
    return mutex;
}

#if defined __unix__
/// Registered when the program starts: a child of a first use would wait for the end of that use.
[[maybe_unused]] const int waits_for_the_line =
    pthread_atfork([] { one_at_a_time().lock(); }, [] { one_at_a_time().unlock(); },
                   [] { one_at_a_time().unlock(); });
#endif

}  // namespace

constinit detail::shared_line detail::line_of_tsc;

const char* tsc_clock::refusal() noexcept {
    static constinit std::atomic<const char*> found{unknown};
    if (found.load(std::memory_order_acquire) == unknown) {
        const std::lock_guard<std::mutex> lock(one_at_a_time());
        if (found.load(std::memory_order_relaxed) == unknown)
            found.store(find_refusal(), std::memory_order_release);
    }
    return found.load(std::memory_order_relaxed);
}

std::int64_t tsc_clock::calibrate() noexcept {
    static constinit detail::counter_calibration calibration;
    if (refusal() != nullptr) return steady();
    const std::lock_guard<std::mutex> lock(one_at_a_time());
    const std::uint64_t count = detail::read_counter();
    if (calibration.line.holds(count)) return calibration.line.at(count);  // made meanwhile
    const std::int64_t time = calibration.step({steady(), detail::read_counter(), steady()});
    detail::line_of_tsc.store(calibration.line);
    return time;
}

}  // namespace tvec
