// Deadlines that a clock has planned which was ahead.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine_state.hpp"
#include "plan.hpp"

namespace tvec::durable::detail {

// Plans beats and retries anew after the clock of the store was set back. They were planned by a
// clock that was ahead, and would be silent until it is as late again. The history of a timer tells
// when its deadline was planned. Deadlines that a user has given stay.
//
// A clock that is set back by less than `least` is waited for: a beat of this minute does not come
// twice.
class beats {
public:
    static constexpr duration least{std::chrono::minutes(1)};

    explicit beats(engine_state& all) : all_(all) {}
    beats(const beats&) = delete;
    beats& operator=(const beats&) = delete;

    // The clock was set and would show `before` now, or the store has read that time.
    void on_clock_set(time_point before);
    // An end of this process has planned this deadline, whoever owns the shard now.
    void on_planned(const std::string& id, time_point due);

private:
    // A deadline, and the time at which this process has planned it.
    struct moved {
        time_point due, by;
    };

    void look_again();
    void look();
    void on_page(const std::vector<stored_timer>& page);
    void plan_anew(const stored_timer& t);
    std::optional<time_point> planned_anew(const stored_timer& t) const;
    bool is_planned_ahead(const stored_timer& t, const history& h) const;
    std::optional<time_point> next_of_rule(const stored_timer& t) const;
    void touch(const std::string& id, time_point due);

    engine_state& all_;
    time_point latest_{};                   // that the clock has shown,
    time_point shown_{};                    // and that since the last look was over
    std::map<std::string, moved> moved_{};  // a touch leaves no note
    // How often the timers are still to be looked at: soon, and when other processes have ended
    // their deliveries that are under way.
    int looks_ = 0;
    place after_{};  // in the present look
    bool is_asked_ = false, begins_anew_ = false;
    timer again_{call<&beats::again_, &beats::look>};
};

}  // namespace tvec::durable::detail
