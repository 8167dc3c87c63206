// Synchronous requests to a store of durable timers of any kind.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "tvec/durable/store.hpp"

namespace support::asking {

using namespace std::chrono_literals;
using namespace tvec::durable;

// Waits for work, and does it.
inline void turn(store& s, duration at_most = 1s) {
    pollfd watched{s.fd(), POLLIN, 0};
    poll(&watched, 1, static_cast<int>(at_most.count()));
    s.run();
}

template <class Condition> void turn_until(store& s, Condition is_so) {
    while (!is_so()) turn(s);
}

// Sends a request, and waits for the answer.
template <class... Answer, class Ask> std::tuple<Answer...> answer_to(store& s, Ask ask) {
    std::optional<std::tuple<Answer...>> got;
    ask(store::completion<Answer...>([&](Answer... a) { got.emplace(std::move(a)...); }));
    turn_until(s, [&] { return got.has_value(); });
    return *got;
}

inline put_result put(store& s, const record& r, existing how = existing::keep) {
    return std::get<0>(
               answer_to<std::vector<put_result>>(s, [&](auto then) { s.put({r}, how, then); }))
        .front();
}
inline cancel_result cancel(store& s, const std::string& id) {
    return std::get<0>(answer_to<cancel_result>(s, [&](auto then) { s.cancel(id, then); }));
}
inline auto end(store& s, const ending& e) {
    return std::get<1>(answer_to<standing, std::vector<end_reply>>(
                           s, [&](auto then) { s.end(s.shard_of(e.token.id), {e}, then); }))
        .front();
}
inline claimed claim(store& s, const std::string& id, std::uint32_t attempts = 0,
                     duration lease = -1h) {
    return std::get<1>(answer_to<standing, std::vector<claimed>>(
                           s,
                           [&](auto then) {
                               s.claim(s.shard_of(id), 1, {lease, attempts}, {id}, then);
                           }))
        .front();
}
inline bool spend(store& s, const token& t) {
    return std::get<1>(
        answer_to<standing, bool>(s, [&](auto then) { s.spend(s.shard_of(t.id), 1, t, then); }));
}
inline auto find(store& s, const std::string& id) {
    return std::get<1>(
        answer_to<standing, std::optional<stored_timer>>(s, [&](auto then) { s.find(id, then); }));
}
inline auto list(store& s, timer_set set, const place& after = {}, std::size_t limit = 100) {
    return std::get<1>(answer_to<standing, std::vector<stored_timer>>(
        s, [&](auto then) { s.list(set, after, limit, then); }));
}
inline auto count(store& s) {
    return std::get<1>(answer_to<standing, totals>(s, [&](auto then) { s.count(then); }));
}
inline auto revive(store& s, const std::string& id, time_point due) {
    return std::get<0>(answer_to<revive_result>(s, [&](auto then) { s.revive(id, due, then); }));
}
inline std::size_t join(store& s, duration lease = 10s) {
    return std::get<1>(
        answer_to<standing, std::size_t>(s, [&](auto then) { s.join(lease, then); }));
}
inline epoch own(store& s, unsigned shard, duration lease = 10s) {
    return std::get<1>(
        answer_to<standing, epoch>(s, [&](auto then) { s.own(shard, lease, then); }));
}
inline auto take(store& s, unsigned shard, epoch mine, const place& after, time_point until,
                 std::size_t limit) {
    return answer_to<standing, std::vector<place>>(
        s, [&](auto then) { s.take(shard, mine, after, until, limit, then); });
}

inline time_point today() { return std::chrono::floor<duration>(std::chrono::system_clock::now()); }

// Checks that `open` throws an error with this code and this text.
template <class Open> void refused(Open open, std::errc code, const std::string& words) {
    try {
        open();
        CHECK(!"it was accepted");
    } catch (const std::system_error& e) {
        CHECK_EQ(e.code().message(), std::make_error_code(code).message());
        CHECK_EQ(std::string(e.what()).find(words) == std::string::npos ? e.what() : words, words);
    }
}

}  // namespace support::asking
