#include "planner.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

namespace tvec::durable::detail {

namespace {

constexpr std::string_view failed = "failed ";

// Makes an end that writes the history only if it differs.
ending end_with(token t, outcome how, const stored_timer& timer, const history& h) {
    ending e{std::move(t), how, {}, how == outcome::dead ? h.reason : "", {}};
    std::string text = to_text(h);
    if (text != timer.history) e.history = std::move(text);
    return e;
}

ending again_at(time_point due, token t, const stored_timer& timer, const history& h) {
    ending e = end_with(std::move(t), outcome::again, timer, h);
    e.due = std::clamp(due, earliest_due, latest_due);
    return e;
}

}  // namespace

planner::planner(const engine_state& all)
    : all_(all), default_(parsed(all.settings.default_plan)),
      random_(static_cast<std::minstd_rand::result_type>(
          all.storage.now().time_since_epoch().count())) {}

ending planner::decide(token t, const stored_timer& timer) {
    assert(!timer.verdict.empty() && "a plan decides about timers with a verdict");
    const std::string_view verdict = timer.verdict;
    try {
        const plan p = parsed(timer.plan);
        if (verdict == "first") return begin(t, timer, p);
        if (verdict == "done") return go_on(t, timer, p);
        if (verdict.starts_with(failed)) return retry(t, timer, p, verdict.substr(failed.size()));
    } catch (const std::exception& e) {
        return bury(std::move(t), timer, e.what());
    }
    return bury(std::move(t), timer, "its verdict cannot be read: " + timer.verdict);
}

// The first deadline is no beat that was done.
ending planner::begin(token t, const stored_timer& timer, const plan& p) const {
    const history h = history::parse(timer.history);
    if (p.rule.empty()) return again_at(timer.due, std::move(t), timer, h);
    const auto due = next_time_of(p, all_.settings.calendar, all_.now());
    if (!due) throw std::invalid_argument("plan: its rule has no time that is still to come");
    return again_at(*due, std::move(t), timer, h);
}

ending planner::go_on(token t, const stored_timer& timer, const plan& p) const {
    history h;
    if (p.times != 0) h.beats = history::parse(timer.history).beats + 1;
    const bool was_last = p.times != 0 && h.beats >= p.times;
    const auto due = was_last ? std::nullopt : next_beat_of(timer, p);
    if (!due) return {std::move(t), outcome::removed};
    return again_at(*due, std::move(t), timer, h);
}

// Beats that were missed are left out, as those of a period are.
std::optional<time_point> planner::next_beat_of(const stored_timer& timer, const plan& p) const {
    const time_point now = all_.now();
    if (!p.rule.empty()) return next_time_of(p, all_.settings.calendar, std::max(now, timer.due));
    if (timer.every == duration::zero()) return std::nullopt;
    const time_point due = next_beat(timer.due, timer.every, now);
    return p.until && due > *p.until ? std::nullopt : std::optional(due);
}

ending planner::retry(token t, const stored_timer& timer, const plan& p, std::string_view reason) {
    const time_point now = all_.now();
    history h = history::parse(timer.history);
    if (h.failures != UINT32_MAX) ++h.failures;
    if (h.failures == 1) h.first = now;
    h.last = now;
    h.reason = line_of(reason);
    const std::uint32_t usual = default_.attempts != 0 ? default_.attempts : all_.settings.attempts;
    const std::uint32_t attempts = p.attempts != 0 ? p.attempts : usual;
    if (attempts != 0 && h.failures >= attempts)
        return end_with(std::move(t), outcome::dead, timer, h);
    const auto& policy = p.retry ? p.retry : default_.retry;
    const duration delay =
        policy ? delay_after(*policy, h.failures, luck()) : all_.settings.claim_lease;
    return again_at(now + delay, std::move(t), timer, h);
}

ending planner::bury(token t, const stored_timer& timer, std::string_view reason) const {
    history h = history::parse(timer.history);
    h.last = all_.now();
    h.reason = line_of(reason);
    return end_with(std::move(t), outcome::dead, timer, h);
}

double planner::luck() {
    constexpr auto least = std::minstd_rand::min(), most = std::minstd_rand::max();
    return static_cast<double>(random_() - least) / static_cast<double>(most - least);
}

}  // namespace tvec::durable::detail
