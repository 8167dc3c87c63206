// Operations of games on all timers of a wheel or a group at once. They are repeated like the
// exercises of single_operations.hpp. Each handles all `n` timers in one call.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan.hpp"
#include "tvec/clock/game_clock.hpp"
#include "tvec/inspect/snapshot.hpp"
#include "tvec/pool/timer_group.hpp"

namespace bench {

class game_exercise {
public:
    explicit game_exercise(const plan& p) : plan_(p) {
        timers_.reserve(p.size());
        while (timers_.size() < p.size()) timers_.emplace_back(group_);
    }

    struct named {
        std::string_view name;
        void (game_exercise::*prepare)();
        void (game_exercise::*run)(std::size_t n);
    };
    static const std::array<named, 7> all;

private:
    void nothing() {}
    void arm_all() {
        for (std::size_t i = 0; i < timers_.size(); ++i)
            wheel_.arm_at(timers_[plan_.order[i]], plan_.delays[i]);
    }
    void arm_and_capture() {
        arm_all();
        capture(0);
        capture(0);  // the memory is there
    }
    void arm_and_pause() {
        arm_all();
        group_.pause(wheel_);
    }

    void read_the_clock(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            auto now = clock_.now();
            asm volatile("" : : "g"(&now) : "memory");
        }
    }
    void capture(std::size_t) {
        saved_.capture(wheel_, [first = timers_.data()](const tvec::timer& t) {
            return static_cast<const tvec::grouped_timer*>(&t) - first;
        });
    }
    void restore(std::size_t) {
        saved_.restore(wheel_, [first = timers_.data()](std::uint64_t id) { return first + id; });
    }
    void count(std::size_t) {
        auto n = group_.count();
        asm volatile("" : : "g"(&n) : "memory");
    }
    void pause(std::size_t) { group_.pause(wheel_); }
    void resume(std::size_t) { group_.resume(wheel_); }
    void cancel_all(std::size_t) { group_.cancel_all(); }

    const plan& plan_;
    tvec::timer_wheel wheel_;
    tvec::timer_group group_;
    std::vector<tvec::grouped_timer> timers_;
    tvec::snapshot saved_;
    tvec::game_clock<> clock_;
};

inline constexpr std::array<game_exercise::named, 7> game_exercise::all{{
    {"game clock", &game_exercise::nothing, &game_exercise::read_the_clock},
    {"capture", &game_exercise::arm_and_capture, &game_exercise::capture},
    {"restore", &game_exercise::arm_and_capture, &game_exercise::restore},
    {"count", &game_exercise::arm_all, &game_exercise::count},
    {"pause", &game_exercise::arm_all, &game_exercise::pause},
    {"resume", &game_exercise::arm_and_pause, &game_exercise::resume},
    {"cancel all", &game_exercise::arm_all, &game_exercise::cancel_all},
}};

}  // namespace bench
