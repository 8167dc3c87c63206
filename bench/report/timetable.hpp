// How long a run still takes, and who gives way so that it ends in time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "repetitions.hpp"

namespace bench {

// "about 3 min"
inline std::string say_time(double seconds) {
    return seconds < 90 ? fmt::format("about {:.0f} s", seconds)
                        : fmt::format("about {:.0f} min", seconds / 60);
}

// Expects of each turn of a structure in a work what it took before: in the last repetition, or
// with fewer timers. With a limit, a rival gives way in a work in which its turn would take a tenth
// of the time, by what it took with as many timers or a tenth of them. Once the time is over it
// gives way in all works: tvec alone ends the first repetition.
class timetable {
public:
    using seconds_since_begin = std::function<double()>;
    using name = std::pair<std::string, std::string>;  // of a work, and of a structure

    timetable(std::vector<part> parts, std::optional<double> limit, seconds_since_begin now)
        : to_come_(std::move(parts)), limit_(limit), now_(std::move(now)) {}

    // Begins to plan: until `begin_repetition` turns are those of each repetition, and not taken.
    void begin_part() {
        planned_.clear();
        is_planning_ = true;
    }
    // Returns whether there is time for one more repetition. For the first there always is.
    bool begin_repetition() {
        is_planning_ = false;
        taken_.clear();
        const part& p = to_come_.front();
        return p.done == 0 || (p.done < p.asked && fits_one_more());
    }
    void end_repetition() { ++to_come_.front().done; }
    void end_part() {
        done_.push_back(to_come_.front());
        to_come_.erase(to_come_.begin());
    }

    // Returns whether the structure takes its turn. It is followed by `end_turn` then.
    bool begin_turn(const name& of) {
        if (is_planning_) {
            planned_.insert(of);
            return false;
        }
        if (gives_way(of)) {
            gave_way_[{of.second, to_come_.front().timers}].insert(of.first);
            planned_.erase(of);
            return false;
        }
        begun_ = now_();
        return true;
    }
    void end_turn(const name& of) {
        const part& p = to_come_.front();
        costs_[of] = {(now_() - begun_) / size_of(p), p.timers};
        taken_.insert(of);
    }

    // The seconds that the run still takes, if all repetitions that were asked for are made.
    // Nothing while no turn has ended.
    std::optional<double> left() const {
        if (costs_.empty()) return std::nullopt;
        double sum = 0;
        for (const part& p : to_come_)
            sum += (p.asked - p.done) * size_of(p) * cost_of_repetition(nothing_);
        sum -=
            size_of(to_come_.front()) * (cost_of_repetition(nothing_) - cost_of_repetition(taken_));
        return limit_ ? std::min(sum, std::max(*limit_ - now_(), 0.0)) : sum;
    }
    double seconds() const { return now_(); }
    double share_done() const {
        const double past = now_(), all = past + left().value_or(0);
        return costs_.empty() || all <= 0 ? 0 : past / all;
    }
    // "1000 timers, repetition 1 of 3, about 2 min left"
    std::string progress() const {
        const part& p = to_come_.front();
        std::string words =
            fmt::format("{} timers, repetition {} of {}", p.timers, p.done + 1, p.asked);
        if (const auto seconds = left()) words += fmt::format(", {} left", say_time(*seconds));
        return words;
    }

    const std::vector<part>& done() const { return done_; }
    // A line for each structure and number of timers.
    std::vector<std::string> who_gave_way() const {
        std::vector<std::string> lines;
        for (const auto& [who, works] : gave_way_)
            lines.push_back(
                fmt::format("{} gave way with {} timers, so that the run ends in time: {}",
                            who.first, who.second, fmt::join(works, ", ")));
        return lines;
    }

private:
    using names = std::set<name>;
    struct cost {
        double by_size;  // seconds
        std::size_t timers;
    };

    // Most works do something for each timer, and nearly nothing else.
    static double size_of(const part& p) { return static_cast<double>(p.timers) + 1'000; }

    bool gives_way(const name& of) const {
        if (!limit_ || of.second == "tvec") return false;
        if (now_() >= *limit_) return true;
        const auto known = costs_.find(of);
        const part& p = to_come_.front();
        return known != costs_.end() && known->second.timers * 10 >= p.timers &&
               known->second.by_size * size_of(p) > *limit_ / 10;
    }
    bool fits_one_more() const {
        if (!limit_) return true;
        double needed = 0;  // one with each number of timers
        for (const part& p : to_come_) needed += size_of(p) * cost_of_repetition(nothing_);
        return now_() + needed <= *limit_;
    }
    // The turns but those, by size. One that was never taken is expected to be as the others.
    double cost_of_repetition(const names& but) const {
        double known = 0;
        std::size_t turns = 0, known_turns = 0;
        for (const name& of : planned_) {
            const auto found = costs_.find(of);
            if (but.contains(of)) continue;
            ++turns;
            if (found == costs_.end()) continue;
            ++known_turns;
            known += found->second.by_size;
        }
        return known + static_cast<double>(turns - known_turns) * mean_cost();
    }
    double mean_cost() const {
        double sum = 0;
        for (const auto& [of, spent] : costs_) sum += spent.by_size;
        return costs_.empty() ? 0 : sum / static_cast<double>(costs_.size());
    }

    std::vector<part> to_come_, done_;  // the first is being measured
    const std::optional<double> limit_;
    const seconds_since_begin now_;
    const names nothing_;
    names planned_, taken_;       // of each repetition, and in this one
    std::map<name, cost> costs_;  // of the last turn
    std::map<std::pair<std::string, std::size_t>, std::set<std::string>> gave_way_;
    double begun_ = 0;
    bool is_planning_ = false;
};

}  // namespace bench
