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

// Submits an operation, and waits for the answer.
template <class Operation, class... Answer>
std::tuple<Answer...> answer_to(store& s, Operation o, completion<Answer...> Operation::*then) {
    std::optional<std::tuple<Answer...>> got;
    o.*then = [&](Answer... a) { got.emplace(std::move(a)...); };
    s.submit(std::move(o));
    turn_until(s, [&] { return got.has_value(); });
    return *got;
}
template <class Operation> auto answer_to(store& s, Operation o) {
    return answer_to(s, std::move(o), &Operation::then);
}

inline put_result put(store& s, const record& r, existing how = existing::keep) {
    return std::get<0>(answer_to(s, operations::put{{r}, how})).front();
}
inline cancel_result cancel(store& s, const std::string& id) {
    return std::get<0>(answer_to(s, operations::cancel{id}));
}
inline end_reply end(store& s, const ending& e) {
    return std::get<1>(answer_to(s, operations::end{s.shard_of(e.token.id), {e}})).front();
}
inline claimed claim(store& s, const std::string& id, duration lease = -1h) {
    const operations::claim o{s.shard_of(id), 1, {lease}, {id}};
    return std::get<1>(answer_to(s, o)).front();
}
inline bool spend(store& s, const token& t) {
    return std::get<1>(answer_to(s, operations::spend{s.shard_of(t.id), 1, t}));
}
inline auto find(store& s, const std::string& id) {
    return std::get<1>(answer_to(s, operations::find{id}));
}
inline auto list(store& s, timer_set set, const place& after = {}, std::size_t limit = 100,
                 const std::string& prefix = "") {
    return std::get<1>(answer_to(s, operations::list{set, after, limit, prefix}));
}
inline touch_result touch(store& s, const std::string& id, time_point due) {
    return std::get<0>(answer_to(s, operations::touch{id, due}));
}
inline bool extend(store& s, const token& t, duration lease) {
    return std::get<1>(answer_to(s, operations::extend{s.shard_of(t.id), t, lease}));
}
inline bool bury(store& s, const stored_timer& letter) {
    return std::get<1>(answer_to(s, operations::bury{letter}));
}
inline auto oldest(store& s, const std::string& prefix = "") {
    return std::get<1>(answer_to(s, operations::oldest{prefix}));
}
inline totals count(store& s) { return std::get<1>(answer_to(s, operations::count{})); }
inline revive_result revive(store& s, const std::string& id, time_point due) {
    return std::get<0>(answer_to(s, operations::revive{id, due}));
}
inline std::size_t join(store& s, duration lease = 10s) {
    return std::get<1>(answer_to(s, operations::join{lease}));
}
inline epoch own(store& s, unsigned shard, duration lease = 10s) {
    return std::get<1>(answer_to(s, operations::own{shard, lease}));
}
inline auto take(store& s, unsigned shard, epoch mine, const place& after, time_point until,
                 std::size_t limit) {
    return answer_to(s, operations::take{shard, mine, after, until, limit});
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
