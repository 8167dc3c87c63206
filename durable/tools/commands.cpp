#include "commands.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tvec/durable/plan.hpp"
#ifdef TVEC_HAS_CALENDAR
#include "tvec/durable/calendar.hpp"
#endif

namespace timers_tool {

namespace {

using namespace tvec::durable;
using example::task;
using tvec::durable::detail::changes_many, tvec::durable::detail::changes_one,
    tvec::durable::detail::sets_deadline;

constexpr std::size_t page_length = 1'000;

// --- the words of answers -----------------------------------------------------------------------

// An answer in a word, and whether it is the wanted one. A word of "" is a failure of the store.
struct verdict {
    const char* word;
    bool is_wanted;
};

template <std::same_as<operations::put> Put> verdict verdict_of(put_result r) {
    constexpr const char* words[] = {"stored", "there_already", "dead", "unknown", ""};
    return {words[static_cast<std::size_t>(r)], r == put_result::stored};
}

// The verdict on an operation that changes one timer.
template <changes_one Operation, class Result> verdict verdict_of(Result r) {
    if constexpr (requires { Result::had_begun; })
        if (r == Result::had_begun) return {"had_begun", true};
    if (r == Result::unknown_id) return {"unknown_id", false};
    if (r == Result::unknown) return {"unknown", false};
    return r == Result{} ? verdict{Operation::success, true} : verdict{"", false};
}

// --- asking -------------------------------------------------------------------------------------

// Asks one operation whose answer tells whether it is known.
template <class Operation>
auto known(view& v, Operation o)
    -> task<std::tuple_element_t<1, typename detail::answers<Operation>::answer>> {
    std::vector<Operation> one;
    one.push_back(std::move(o));
    auto asked = v.ask(std::move(one));
    auto got = co_await asked;
    if (std::get<0>(got.front()) != standing::done) v.fail();
    co_return std::get<1>(std::move(got.front()));
}

time_point due_of(const view& v, const settings& o) {
    if (o.due_ms) return time_point(duration(*o.due_ms));
    return std::chrono::ceil<duration>(v.store().now()) + duration(o.in_ms.value_or(0));
}

// --- looking ------------------------------------------------------------------------------------

void print(output& out, const stored_timer& t, const settings& o) {
    out.text += o.json ? json_text(described(t, o.command == "dead")) : line_of(t);
    out.text += '\n';
}

// Prints the timers after a place, up to a deadline, page by page, so that a store of any size is
// listed in little memory.
task<int> list(const settings& o, view& v, output& out, timer_set set, place after,
               time_point until) {
    for (std::uint64_t left = o.limit; left > 0;) {
        operations::list asked{set, after, std::min<std::uint64_t>(left, page_length), o.prefix};
        auto answer = known(v, std::move(asked));
        const auto timers = co_await std::move(answer);
        for (const stored_timer& t : timers) {
            if (t.due > until) co_return 0;
            print(out, t, o);
        }
        co_await out.flush();
        left -= timers.size();
        if (timers.size() < page_length) break;
        after = {timers.back().due, timers.back().id};
    }
    co_return 0;
}

task<int> get(const settings& o, view& v, output& out) {
    auto answer = known(v, operations::find{o.id});
    const auto t = co_await std::move(answer);
    if (!t)
        throw std::runtime_error("no timer waits that has the id " + shown(o.id) +
                                 ": `dead` lists those that were given up");
    if (o.json) {
        nlohmann::json object = described(*t, false);
        enter(object, "body", t->body);
        out.text += json_text(object) + '\n';
    } else {
        print(out, *t, o);
        out.text += shown(t->body) + '\n';
    }
    co_return 0;
}

// Returns the timer that is due first, if there is one.
task<std::vector<stored_timer>> first(view& v, place after) {
    auto answer = known(v, operations::list{timer_set::waiting, after, 1});
    co_return co_await std::move(answer);
}

task<int> stats(const settings& o, view& v, output& out) {
    const time_point now = std::chrono::floor<duration>(v.store().now());
    auto counted = known(v, operations::count{});
    const totals all = co_await std::move(counted);
    auto asked_oldest = first(v, {});
    const auto oldest = co_await std::move(asked_oldest);
    const bool is_late = !oldest.empty() && oldest.front().due < now;
    auto asked_next = first(v, {now, ""});
    const auto next = co_await std::move(asked_next);
    const auto breaks = v.store().broken_connections();
    if (o.json) {
        nlohmann::json object = {{"waiting", all.waiting}, {"dead", all.dead},
                                 {"damaged", all.damaged}, {"next_due_ms", nullptr},
                                 {"overdue_ms", 0},        {"broken_connections", breaks}};
        if (!next.empty()) object["next_due_ms"] = next.front().due.time_since_epoch().count();
        if (is_late) object["overdue_ms"] = (now - oldest.front().due).count();
        out.text += json_text(object) + '\n';
        co_return 0;
    }
    out.text += fmt::format("waiting {}\ndead {}\n", all.waiting, all.dead);
    if (all.damaged != 0) out.text += fmt::format("damaged {}\n", all.damaged);
    out.text += fmt::format("next {}\n", next.empty() ? "none" : shown(next.front().due));
    if (is_late)
        out.text += fmt::format("overdue {} since {}\n", shown(oldest.front().id),
                                shown(oldest.front().due));
    for (const auto& [why, times] : breaks)
        out.text += fmt::format("connection broken {}: {}\n", times, why);
    co_return 0;
}

// --- changing -----------------------------------------------------------------------------------

template <class Operation, class Result> verdict said(const view& v, Result r) {
    const verdict said = verdict_of<Operation>(r);
    if (*said.word == '\0') v.fail();
    return said;
}

// Prints an answer. Returns the exit status.
int print(output& out, const verdict& answered, const settings& o) {
    out.text += o.json ? json_text({{"result", answered.word}}) : answered.word;
    out.text += '\n';
    return answered.is_wanted ? 0 : 1;
}

// Asks one operation, and prints its answer. Returns status 0 if it is the wanted one.
template <class Operation>
task<int> change(const settings& o, view& v, output& out, Operation asked) {
    std::vector<Operation> one;
    one.push_back(std::move(asked));
    auto answer = v.ask(std::move(one));
    const auto got = co_await answer;
    verdict answered{};
    if constexpr (std::is_same_v<Operation, operations::put>)
        answered = said<Operation>(v, std::get<0>(got.front()).front());
    else
        answered = said<Operation>(v, std::get<0>(got.front()));
    if (o.command == "purge" && answered.is_wanted) answered.word = "purged";
    co_return print(out, answered, o);
}

// Asks the operation for each timer of the set whose id begins with the prefix, page by page, and
// prints how many it has changed. It goes once through the timers that were there when
// it began. Returns status 1 if an answer was `unknown`: then it is to be called again.
template <class Operation>
task<int> change_all(const settings& o, view& v, output& out, timer_set set, Operation asked) {
    std::uint64_t changed = 0, unknown = 0;
    place after;
    for (bool is_more = true; is_more;) {
        auto listed = known(v, operations::list{set, after, page_length, o.prefix});
        const auto timers = co_await std::move(listed);
        is_more = timers.size() == page_length;
        if (is_more) after = {timers.back().due, timers.back().id};
        std::vector<Operation> all(timers.size(), asked);
        for (std::size_t i = 0; i < all.size(); ++i) all[i].id = timers[i].id;
        auto answer = v.ask(std::move(all));
        for (const auto& got : co_await answer) {
            const verdict answered = said<Operation>(v, std::get<0>(got));
            changed += answered.is_wanted;
            unknown += std::string_view(answered.word) == "unknown";
        }
    }
    if (o.json)
        out.text += json_text({{"changed", changed}, {"unknown", unknown}}) + '\n';
    else
        out.text += fmt::format("{} {}{}\n", changed, changed == 1 ? "timer" : "timers",
                                unknown == 0 ? "" : fmt::format(", {} unknown", unknown));
    co_return unknown == 0 ? 0 : 1;
}

// Removes a dead letter, and no timer that waits.
task<int> purge(const settings& o, view& v, output& out) {
    auto answer = known(v, operations::find{o.id});
    if (co_await std::move(answer)) co_return print(out, {"waits", false}, o);
    auto changed = change(o, v, out, operations::cancel{o.id});
    co_return co_await std::move(changed);
}

task<int> purge_some(const settings& o, view& v, output& out) {
    if (!o.all && o.prefix.empty()) return purge(o, v, out);
    return change_all(o, v, out, timer_set::dead, operations::cancel{});
}

// Runs the command of an operation that changes one timer.
template <changes_one Operation>
task<int> change_some(const settings& o, view& v, output& out, Operation asked) {
    if constexpr (sets_deadline<Operation>) asked.due = due_of(v, o);
    if constexpr (changes_many<Operation>)
        if (!o.prefix.empty()) return change_all(o, v, out, Operation::among, std::move(asked));
    asked.id = o.id;
    return change(o, v, out, std::move(asked));
}

// Returns the deadline of a put: as it is asked for, or the first time of the rule of its plan.
// Throws if the plan cannot be read, has no time left, or has a rule beside a period.
time_point first_due(const view& v, const settings& o) {
    bool has_rule = false;
    calendar dates;
#ifdef TVEC_HAS_CALENDAR
    dates = [&](std::string_view rule, std::string_view zone, time_point after) {
        has_rule = true;
        return next_time(rule, zone, after);
    };
#endif
    const auto refuse = [&](const std::string& fault) {
        throw std::runtime_error("--plan " + shown(o.plan) + ": " + fault);
    };
    if (const std::string fault = plan_fault(o.plan, dates); !fault.empty()) refuse(fault);
    if (!has_rule) return due_of(v, o);
    if (o.every_ms != 0) refuse("it has a rule: expected no --every-ms beside it");
    if (o.in_ms || o.due_ms) return due_of(v, o);
    const auto first = first_time(o.plan, dates, std::chrono::ceil<duration>(v.store().now()));
    if (!first) refuse("its rule has no time that is still to come");
    return *first;
}

task<int> put(const settings& o, view& v, output& out) {
    const time_point due = first_due(v, o);
    if (duration(o.every_ms) > latest_due - due)
        throw std::runtime_error(fmt::format(
            "--every-ms {}: expected a beat before the end of the year 9999", o.every_ms));
    record r{o.id, due, o.body, duration(o.every_ms), o.plan};
    const auto how = o.replace ? existing::replace : existing::keep;
    return change(o, v, out, operations::put{{std::move(r)}, how});
}

}  // namespace

void print_times(const settings& o, output& out) {
    calendar dates;
#ifdef TVEC_HAS_CALENDAR
    dates = next_time;
#endif
    if (const std::string fault = plan_fault(o.id, dates); !fault.empty())
        throw std::runtime_error("next " + shown(o.id) + ": " + fault);
    auto after = std::chrono::ceil<duration>(std::chrono::system_clock::now());
    int printed = 0;
    for (; printed < 10; ++printed) {
        const auto next = first_time(o.id, dates, after);
        if (!next) break;
        after = *next;
        out.text +=
            o.json
                ? json_text({{"due_ms", after.time_since_epoch().count()}, {"due", shown(after)}})
                : shown(after);
        out.text += '\n';
    }
    if (printed == 0)
        throw std::runtime_error("next " + shown(o.id) +
                                 ": expected a rule with a time that is still to come");
}

task<int> run_command(const settings& o, view& v, output& out) {
    const auto now = std::chrono::floor<duration>(v.store().now());
    if (o.command == "list") return list(o, v, out, timer_set::waiting, {}, latest_due);
    if (o.command == "near") return list(o, v, out, timer_set::waiting, {now, ""}, latest_due);
    if (o.command == "overdue") return list(o, v, out, timer_set::waiting, {}, now - duration(1));
    if (o.command == "dead") return list(o, v, out, timer_set::dead, {}, latest_due);
    if (o.command == "get") return get(o, v, out);
    if (o.command == "stats") return stats(o, v, out);
    if (o.command == "put") return put(o, v, out);
    if (o.command == "purge") return purge_some(o, v, out);
    std::optional<task<int>> begun;
    for_each_change([&](auto asked) {
        if (o.command == asked.name) begun = change_some(o, v, out, std::move(asked));
    });
    if (!begun)
        throw std::runtime_error("the command " + shown(o.command) +
                                 " is not for a process that serves: run it without one");
    return std::move(*begun);
}

}  // namespace timers_tool
