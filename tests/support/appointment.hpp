// A timer that knows by the clock when it should have fired.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "tvec/clock/clocked_wheel.hpp"

namespace support {

struct appointment {
    using clock = std::chrono::steady_clock;

    void on_fire() {
        fired = true;
        early = early || clock::now() < deadline;
    }
    template <class Wheel> void arm(Wheel& timers, std::chrono::nanoseconds delay) {
        fired = false;
        deadline = clock::now() + delay;
        timers.arm_at(t, deadline);
    }
    bool kept() const { return fired && !early; }

    clock::time_point deadline;
    bool fired = false;
    bool early = false;
    tvec::timer t{tvec::call<&appointment::t, &appointment::on_fire>};
};

// Many of them, at addresses that do not change.
inline std::vector<std::unique_ptr<appointment>> appointments(std::size_t n) {
    std::vector<std::unique_ptr<appointment>> all(n);
    for (auto& a : all) a = std::make_unique<appointment>();
    return all;
}

// Returns the message of a std::system_error thrown by `f`; empty if there is none.
template <class F> std::string refusal(F f) {
    try {
        f();
    } catch (const std::system_error& e) {
        return e.what();
    }
    return "";
}

inline bool says(const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
}

}  // namespace support
