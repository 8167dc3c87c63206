#include "planner.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "../local/hash.hpp"
#include "beats.hpp"

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
    e.due = due;
    return e;
}

// Makes an end that plans a later deadline, and notes when it did.
ending planned(time_point due, time_point now, token t, const stored_timer& timer, history h) {
    due = std::clamp(due, earliest_due, latest_due);
    h.last = now;
    h.delay = due - now;
    return again_at(due, std::move(t), timer, h);
}

// Returns the history of a timer whose deadline is over.
history history_of(const stored_timer& timer) {
    history h = history::parse(timer.history);
    h.delay = {};
    return h;
}

// Returns the number of the last attempt of a beat: of its last failure, or of the last delivery
// without an end. A claim by which a plan decides does not change it.
std::uint32_t number_of(const stored_timer& timer) { return timer.ended + timer.spent; }

// Returns the id of the dead letter of a beat: the same if it is decided again, and another one for
// a timer that is put anew, whose attempts begin again. A long id is cut, and its hash stands for
// the rest.
std::string letter_id(const stored_timer& timer) {
    const std::string number = " #" + std::to_string(number_of(timer)) + '@' +
                               std::to_string(timer.due.time_since_epoch().count());
    if (timer.id.size() + number.size() <= longest_id) return timer.id + number;
    const std::string hash = '~' + std::to_string(hash_of(timer.id));
    return timer.id.substr(0, longest_id - hash.size() - number.size()) + hash + number;
}

// Returns the dead letter of a beat. Revived, it comes once.
stored_timer letter_of(const stored_timer& timer, const history& h) {
    stored_timer letter;
    letter.id = letter_id(timer);
    letter.due = timer.due;
    letter.body = timer.body;
    letter.plan = retries_of(timer.plan);
    letter.attempt = letter.ended = number_of(timer);
    letter.history = to_text(h);
    return letter;
}

}  // namespace

planner::planner(const engine_state& all)
    : all_(all), default_(parsed(all.settings.default_plan)),
      random_(static_cast<std::minstd_rand::result_type>(
          all.storage.now().time_since_epoch().count())) {}

decision planner::decide(token t, const stored_timer& timer) {
    assert(!timer.verdict.empty() && "a plan decides about timers with a verdict");
    const std::string_view verdict = timer.verdict;
    try {
        const plan p = parsed(timer.plan);
        if (verdict == "first") return {begin(t, timer, p)};
        if (verdict == "done") return {go_on(t, timer, p)};
        if (verdict == spent_all) return give_up(t, timer, p, history_of_spent(timer));
        if (verdict.starts_with(failed)) return retry(t, timer, p, verdict.substr(failed.size()));
    } catch (const std::exception& e) {
        return {bury(std::move(t), timer, e.what())};
    }
    return {bury(std::move(t), timer, "its verdict cannot be read: " + timer.verdict)};
}

// The first deadline is no beat that was done.
ending planner::begin(token t, const stored_timer& timer, const plan& p) const {
    const history h = history_of(timer);
    if (p.rule.empty()) return again_at(timer.due, std::move(t), timer, h);
    const auto due = next_time_of(p, all_.settings.calendar, all_.now());
    if (!due) throw std::invalid_argument("plan: its rule has no time that is still to come");
    return planned(*due, all_.now(), std::move(t), timer, h);
}

ending planner::go_on(token t, const stored_timer& timer, const plan& p) const {
    const history h = after_beat(timer, p);
    const auto due = next_beat_of(timer, p, h);
    if (!due) return {std::move(t), outcome::removed};
    return planned(*due, all_.now(), std::move(t), timer, h);
}

// Returns the history of a timer after a beat that was done or given up: it has no failures.
history planner::after_beat(const stored_timer& timer, const plan& p) {
    history h;
    if (p.times != 0) h.beats = history::parse(timer.history).beats + 1;
    return h;
}

// Beats that were missed are left out, as those of a period are.
std::optional<time_point> planner::next_beat_of(const stored_timer& timer, const plan& p,
                                                const history& after) const {
    if (p.times != 0 && after.beats >= p.times) return std::nullopt;
    const time_point now = all_.now();
    // A deadline that is far ahead is of a clock that was set back meanwhile.
    const time_point last = timer.due - now < beats::least ? std::max(now, timer.due) : now;
    if (!p.rule.empty()) return next_time_of(p, all_.settings.calendar, last);
    if (timer.every == duration::zero()) return std::nullopt;
    const time_point due = next_beat(timer.due, timer.every, now);
    return p.until && due > *p.until ? std::nullopt : std::optional(due);
}

decision planner::retry(token t, const stored_timer& timer, const plan& p,
                        std::string_view reason) {
    const time_point now = all_.now();
    history h = history_of(timer);
    if (h.failures != UINT32_MAX) ++h.failures;
    if (h.failures == 1) h.first = now;
    h.last = now;
    const duration asked = take_delay(reason);
    h.reason = line_of(reason);
    const std::uint32_t usual = default_.attempts != 0 ? default_.attempts : all_.settings.attempts;
    const std::uint32_t attempts = p.attempts != 0 ? p.attempts : usual;
    if (attempts != 0 && h.failures >= attempts) return give_up(std::move(t), timer, p, h);
    const auto& policy = p.retry ? p.retry : default_.retry;
    duration delay = asked != duration::zero() ? asked : all_.settings.claim_lease;
    if (policy) delay = std::max(asked, delay_after(*policy, h.failures, luck()));
    return {planned(now + delay, now, std::move(t), timer, h)};
}

history planner::history_of_spent(const stored_timer& timer) const {
    history h = history_of(timer);
    h.last = all_.now();
    h.reason = "deliveries without an end: " + std::to_string(timer.spent);
    return h;
}

// Gives up a beat of a timer that has more of them, and otherwise the timer.
decision planner::give_up(token t, const stored_timer& timer, const plan& p, history h) const {
    const bool is_for_good = p.attempts != 0 ? p.is_for_good : default_.is_for_good;
    const history rest = after_beat(timer, p);
    const auto next = is_for_good ? std::nullopt : next_beat_of(timer, p, rest);
    if (!next) return {end_with(std::move(t), outcome::dead, timer, h)};
    h.beats = 0;
    stored_timer letter = letter_of(timer, h);
    return {planned(*next, all_.now(), std::move(t), timer, rest), std::move(letter)};
}

ending planner::bury(token t, const stored_timer& timer, std::string_view reason) const {
    history h = history_of(timer);
    h.last = all_.now();
    h.reason = line_of(reason);
    return end_with(std::move(t), outcome::dead, timer, h);
}

double planner::luck() {
    constexpr auto least = std::minstd_rand::min(), most = std::minstd_rand::max();
    return static_cast<double>(random_() - least) / static_cast<double>(most - least);
}

}  // namespace tvec::durable::detail
