// Deadlines that a clock has given which was ahead.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine_state.hpp"

namespace tvec::durable::detail {

// Plans beats and retries anew after the clock of the store was set back. They were planned by a
// clock that was ahead, and would be silent until it is as late again. Knows only of clocks that
// this process has seen. Deadlines that a user has given stay.
//
// A clock that is set back by less than `least` is waited for: a beat of this minute does not come
// twice.
class beats {
public:
    static constexpr duration least{std::chrono::minutes(1)};

    explicit beats(engine_state& all) : all_(all), since_(all.now()) {}
    beats(const beats&) = delete;
    beats& operator=(const beats&) = delete;

    // The clock was set: it would show `before` now, and has shown nothing before `since`. The
    // store may have planned by it before the engine has looked.
    void on_clock_set(time_point before, time_point since);
    // The end of a delivery has planned this deadline.
    void on_next(const std::string& id, time_point due);

private:
    // The readings of a clock that was ahead, and how often its timers are still to be looked at:
    // soon, and when other processes have ended their deliveries that are under way. It is kept
    // until it has passed, because ends of this process may plan by it for as long.
    struct span {
        time_point from, to;
        int looks = 2;
    };

    void note(time_point from, time_point to);
    void look_again();
    void look();
    time_point first_to_look_at() const;
    void on_page(const std::vector<stored_timer>& page);
    void plan_anew(const stored_timer& t);
    std::optional<time_point> planned_anew(const span& ahead, const stored_timer& t) const;
    std::optional<time_point> next_of_rule(const span& ahead, const stored_timer& t) const;
    void touch(const std::string& id, time_point due);

    engine_state& all_;
    time_point since_;    // before the first reading of this clock, and
    time_point shown_{};  // its last one before it was set back by less than `least`
    std::vector<span> ahead_{};
    place after_{};  // in the present look
    bool is_asked_ = false, begins_anew_ = false;
    timer again_{call<&beats::again_, &beats::look>};
};

}  // namespace tvec::durable::detail
