#include "service.hpp"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../../../examples/support/task.hpp"
#include "../../support/open_store.hpp"
#include "../output.hpp"
#include "../view.hpp"
#include "control.hpp"
#include "loop.hpp"
#include "page.hpp"
#include "sink.hpp"
#include "tvec/durable/timers.hpp"
#ifdef TVEC_HAS_CALENDAR
#include "tvec/durable/calendar.hpp"
#endif

namespace timers_tool {

namespace {

using namespace tvec::durable;

// Writes a line into the log. A log that cannot be written, on a full disk say, ends nothing.
template <class... Argument>
void log(fmt::format_string<Argument...> format, Argument&&... arguments) {
    std::fputs(fmt::format(format, std::forward<Argument>(arguments)...).c_str(), stderr);
}

// What all services of a store should agree on: a timer is served by any of them.
std::string terms_of(const settings& o) {
    return fmt::format("{}\n{}\n{}\n{}\n{}", o.to, o.lease_ms, o.attempts, o.wait_replicas, o.plan);
}

// How long the service waits before it extends leases again.
duration pause_of_extend(const settings& o) {
    return std::min(duration(o.lease_ms) / 4, duration(10'000));
}

// How long the lease of a delivery is that no worker has. Nobody extends it when a worker takes an
// entry of a stream: so that the worker has a whole lease, each extension gives more than is over
// before the next one comes, which may be late. The table extends it in tvec.next.
duration lease_of(const settings& o) {
    const duration whole(o.lease_ms), more = std::min(whole / 3, duration(20'000));
    return o.to.starts_with("stream:") ? whole + more : whole;
}

class service {
public:
    explicit service(const settings& o)
        : settings_(o), lease_(lease_of(o)), loop_([this] { on_signal(); }),
          store_(example::open_store(o.store, o.wait_replicas, terms_of(o))),
          view_(*store_, [this](operation asked) { submit(std::move(asked)); }),
          sink_(open_sink(loop_, settings_,
                          [this](const token& t, sink_answer a) { on_answer(t, a); })),
          timers_(
              loop_.wheel(), *store_, [this](delivery d) { on_due(std::move(d)); },
              options_of(settings_)) {
        if (!example::is_server(o.store))
            control_ = std::make_unique<control>(loop_, socket_of(o.store), view_);
        if (!o.page.empty())
            page_ = std::make_unique<page>(
                loop_, o.page,
                page::shown_service{
                    [this] { return metrics(); }, [this] { return fault(); },
                    [this](std::string prefix) { return ask_overdue(std::move(prefix)); },
                    [this] { return store_->warning(); }});
        loop_.watch(timers_.fd(), EPOLLIN, [](auto) {});  // each turn runs them
        loop_.wheel().arm_after(extend_, pause_of_extend(settings_));
        loop_.wheel().arm_after(report_, std::chrono::seconds(1));
        loop_.wheel().arm_after(watch_, std::chrono::seconds(1));
    }

    int run() {
        // A connection string may have a password, and this line goes into a log.
        fmt::print("tvec-timers: serves {} to {}\n",
                   example::is_postgres(settings_.store) ? "PostgreSQL" : settings_.store,
                   settings_.to);
        if (page_) fmt::print("tvec-timers: page at {}\n", page_->address());
        std::fflush(stdout);
        while (!is_over_) {
            turn();
            if (!is_announced_ && timers_.ready()) announce();
        }
        const std::size_t left = held_.size() + ends_;
        if (left != 0)
            log("tvec-timers: {} deliveries had no end yet: they come again when their "
                "leases end\n",
                left);
        return left == 0 && !is_unfinished_ ? 0 : 1;
    }

private:
    static options options_of(const settings& o) {
        options all;
        all.claim_lease = lease_of(o);
        all.shard_lease = std::clamp(duration(o.lease_ms), duration(1'000), duration(10'000));
        all.limits = {{"", most_in_flight(o)}};
        all.default_plan = o.plan;
#ifdef TVEC_HAS_CALENDAR
        all.calendar = next_time;
#endif
        all.attempts = o.attempts;
        all.hands_over = o.to.starts_with("stream:") || o.to == "table";  // workers spend attempts
        all.on_exception = [](const std::exception_ptr& e) {
            try {
                std::rethrow_exception(e);
            } catch (const std::exception& fault) {
                log("tvec-timers: {}\n", fault.what());
            }
        };
        all.on_dead = [](const std::string& id, const std::string& reason) {
            if (reason.starts_with("plan: "))
                log("tvec-timers: {}: {}\n", shown(id), shown(reason));
        };
        return all;
    }

    void turn() {
        loop_.turn();
        timers_.run();
        sink_->flush();
        if (control_) control_->run();
        if (page_) page_->run();
    }

    void announce() {
        is_announced_ = true;
        sd_notify(0, "READY=1");
        fmt::print("tvec-timers: ready\n");
        std::fflush(stdout);
    }

    // --- deliveries -----------------------------------------------------------------------------

    // A delivery is held until the sink has answered.
    void on_due(delivery d) {
        if (const auto older = held_.find(d.token.id); older != held_.end()) {
            sink_->withdraw(older->second);
            older->second = d.token;
        } else {
            held_.emplace(d.token.id, d.token);
        }
        sink_->put(std::move(d));
    }

    void on_answer(const token& t, sink_answer a) {
        const auto held = held_.find(t.id);
        if (held == held_.end() || held->second != t) return;  // stale
        held_.erase(held);
        ++answered_[static_cast<std::size_t>(a.what)];
        if (a.what == sink_answer::kind::taken) return timers_.hand_over(t);
        ++ends_;
        const auto ended = [this](bool) { --ends_; };
        switch (a.what) {
        case sink_answer::kind::done:
            timers_.done(t, ended);
            break;
        case sink_answer::kind::again:
            if (timers_.again(t, timers_.now() + a.in, ended) == refusal::none) break;
            timers_.failed(t, "hook: its answer has no deadline that can be", ended);
            break;
        default:
            timers_.failed(t, a.reason, ended);
        }
    }

    // Extends the leases of deliveries that no worker has, and forgets those that are over. A
    // delivery that a worker has taken counts as an attempt.
    void on_extend() {
        loop_.wheel().arm_after(extend_, pause_of_extend(settings_));
        for (const auto& [id, held] : held_) extend(held);
        look_through();
    }
    // A look through the sink also finds what other processes have put there, for /health.
    void look_through() {
        sink_->look_through([this](const token& t, bool is_with_worker) {
            is_with_worker ? timers_.taken(t) : extend(t);
        });
    }

    void extend(const token& t) {
        static_cast<void>(timers_.extend(t, lease_, [this, t](standing how, bool is_current) {
            if (how == standing::done && !is_current) withdraw(t);
        }));
    }

    void withdraw(const token& t) {
        const auto held = held_.find(t.id);
        if (held != held_.end() && held->second == t) held_.erase(held);
        sink_->withdraw(t);
    }

    // --- the view -------------------------------------------------------------------------------

    void submit(operation asked) {
        if (is_stopping_) throw std::runtime_error("it is stopping");
        const refusal r = timers_.submit(std::move(asked));
        if (r != refusal::none) throw std::runtime_error(std::string("refused: ") + to_text(r));
    }

    std::string metrics() const {
        using kind = sink_answer::kind;
        std::string text = to_prometheus(timers_.counters(), timers_.gauges(), timers_.late());
        text += "# HELP tvec_timers_held deliveries that the sink has not taken yet\n"
                "# TYPE tvec_timers_held gauge\n";
        text += fmt::format("tvec_timers_held {}\n", held_.size());
        text += "# HELP tvec_timers_sink_up 1 while the destination of deliveries works\n"
                "# TYPE tvec_timers_sink_up gauge\n";
        text += fmt::format("tvec_timers_sink_up {}\n", sink_->fault().empty() ? 1 : 0);
        text += "# HELP tvec_timers_oldest_overdue_seconds for how long the timer that waits "
                "longest is due and nobody is at work on it, or its workers end nothing\n"
                "# TYPE tvec_timers_oldest_overdue_seconds gauge\n";
        text += fmt::format("tvec_timers_oldest_overdue_seconds {:.3f}\n", seconds_overdue());
        text += "# HELP tvec_timers_answers_total answers of the sink\n"
                "# TYPE tvec_timers_answers_total counter\n";
        for (const auto& [what, name] : {std::pair(kind::taken, "taken"),
                                         {kind::done, "done"},
                                         {kind::again, "again"},
                                         {kind::failed, "failed"}})
            text += fmt::format("tvec_timers_answers_total{{answer=\"{}\"}} {}\n", name,
                                answered_[static_cast<std::size_t>(what)]);
        return text;
    }

    // Returns what keeps the service from delivering, whatever the store has, or "".
    std::string fault() const {
        if (is_stopping_) return "it is stopping";
        const std::string why = store_->last_failure();
        if (!timers_.ready()) return "it owns no shard yet: " + (why.empty() ? "it begins" : why);
        return sink_->fault();
    }

    // --- the timer that waits longest -----------------------------------------------------------

    struct late_timer : overdue {
        std::string why{};  // it waits, if the sink knows
    };

    // Finds it, in the store or in the sink. What the sink holds may be over: the store knows.
    example::task<std::optional<late_timer>> find_overdue(std::string prefix) {
        std::vector<operations::oldest> one{{prefix}};
        auto asked = view_.ask(std::move(one));
        auto [how, oldest] = std::move((co_await asked).front());
        if (how != standing::done) view_.fail();
        std::optional<late_timer> found;
        if (oldest) found = {std::move(*oldest)};
        token over;  // what is on its way cannot be withdrawn
        for (auto held = sink_->untaken(prefix); held && held->token != over;
             held = sink_->untaken(prefix)) {
            std::vector<operations::find> of{{held->token.id}};
            auto asked_timer = view_.ask(std::move(of));
            const auto [known, timer] = (co_await asked_timer).front();
            if (known != standing::done) view_.fail();
            if (timer && timer->attempt == held->token.attempt && timer->attempt != timer->ended) {
                const bool is_other = found && !found->id.starts_with(prefix);
                if (!found || is_other || held->due < found->since || held->token.id == found->id)
                    found = {{held->token.id, held->due, held->due, true}, held->why};
                break;
            }
            over = held->token;
            withdraw(over);
        }
        co_return std::move(found);
    }

    // Answers the fault that a timer has waited for too long, or "".
    example::task<std::string> ask_overdue(std::string prefix) {
        auto found = find_overdue(prefix);
        co_return fault_of_overdue(co_await std::move(found), prefix);
    }

    // Notes it each second. The last answer came at `told_`.
    void on_watch() {
        loop_.wheel().arm_after(watch_, std::chrono::seconds(1));
        if (is_stopping_ || (watching_ && !watching_->done())) return;
        watching_ = note_overdue();
        watching_->start();
    }
    example::task<> note_overdue() {
        auto found = find_overdue("");
        oldest_ = co_await std::move(found);
        told_ = clock::now();
    }

    // Returns for how long a timer waits, by the last answer of the store. While the store does not
    // answer, no shorter than that.
    double seconds_overdue() const {
        using seconds = std::chrono::duration<double>;
        const seconds waits = oldest_ ? seconds(timers_.now() - oldest_->since) : seconds();
        const seconds silent = clock::now() - told_;
        return std::max({waits, silent > std::chrono::seconds(5) ? silent : seconds(), seconds()})
            .count();
    }

    // Returns the fault that a timer has waited for too long, or "".
    std::string fault_of_overdue(const std::optional<late_timer>& found,
                                 const std::string& prefix) const {
        const time_point now = timers_.now();
        if (!found || now - found->since <= duration(settings_.overdue_ms)) return "";
        const std::string timer =
            fmt::format("timer {} is overdue for {} s", shown(found->id),
                        std::chrono::floor<std::chrono::seconds>(now - found->due).count());
        if (!found->id.starts_with(prefix))
            return fmt::format(
                "{}, and so are {} before any with the prefix {}: these were not looked at", timer,
                overdue_looked_at, shown(prefix));
        if (!found->waits && found->unended >= unended_attempts)
            return fmt::format("{}: {} deliveries of it had no end", timer, found->unended);
        return timer + ", and nobody is at work on it: " + reason_of(*found);
    }

    std::string reason_of(const late_timer& o) const {
        const std::string sink = sink_->fault(), store = store_->last_failure();
        if (!sink.empty()) return sink;
        if (o.waits) return o.why.empty() ? "no worker has taken it" : shown(o.why);
        if (!store.empty()) return "the store: " + store;
        if (o.unended > 0) return "its delivery had no end within its lease";
        if (held_.size() >= most_in_flight(settings_)) {
            const std::string refusals = sink_->refusals();
            return "--in-flight are under way before it" +
                   (refusals.empty() ? "" : ", " + refusals);
        }
        return "the reason is not known";
    }

    // --- the log --------------------------------------------------------------------------------

    // Reports on the standard error output, once for each change, the dangers and faults of the
    // store and of the sink.
    void on_report() {
        loop_.wheel().arm_after(report_, std::chrono::seconds(1));
        std::uint64_t breaks = 0;
        for (const auto& [reason, times] : store_->broken_connections()) breaks += times;
        if (std::exchange(breaks_, breaks) != breaks) said_of_store_.clear();
        report(said_warning_, "store", store_->warning());
        report(said_of_store_, "store", store_->last_failure());
        const bool was_down = !said_of_sink_.empty();
        report(said_of_sink_, "sink", sink_->fault());
        if (was_down && said_of_sink_.empty()) log("tvec-timers: sink: works again\n");
        const bool is_late = oldest_ && !fault_of_overdue(oldest_, "").empty();
        if (!std::exchange(was_late_, is_late) && is_late)
            log("tvec-timers: {}\n", fault_of_overdue(oldest_, ""));
    }

    static void report(std::string& said, const char* of, const std::string& now) {
        if (std::exchange(said, now) != now && !now.empty()) log("tvec-timers: {}: {}\n", of, now);
    }

    // --- the end --------------------------------------------------------------------------------

    void on_signal() {
        if (is_stopping_) {
            is_over_ = true;  // asked twice
            return;
        }
        is_stopping_ = true;
        sd_notify(0, "STOPPING=1");
        timers_.stop(
            [this](const unfinished& u) {
                is_stopped_ = true;
                is_unfinished_ = u.any();
            },
            duration(settings_.drain_ms));
        loop_.wheel().arm_after(drained_, std::chrono::milliseconds(settings_.drain_ms));
        loop_.wheel().arm_after(look_, std::chrono::milliseconds(1));
    }
    void on_drained() { is_over_ = true; }
    void on_look() {
        is_over_ = is_over_ || (is_stopped_ && held_.empty() && ends_ == 0);
        loop_.wheel().arm_after(look_, std::chrono::milliseconds(5));
    }

    const settings settings_;
    const duration lease_;
    loop loop_;  // blocks the signals for the threads of the store
    std::unique_ptr<store> store_;
    view view_;
    std::unordered_map<std::string, token> held_;
    std::array<std::uint64_t, 4> answered_{};
    std::unique_ptr<sink> sink_;
    timers<> timers_;
    std::unique_ptr<control> control_;
    std::unique_ptr<page> page_;
    std::size_t ends_ = 0;  // that the store has not answered
    bool is_announced_ = false, is_stopping_ = false, is_stopped_ = false, is_unfinished_ = false;
    bool is_over_ = false;
    std::uint64_t breaks_ = 0;  // of the connection to the store
    std::string said_warning_, said_of_store_, said_of_sink_;
    using clock = std::chrono::steady_clock;
    std::optional<late_timer> oldest_;       // in the store or the sink
    clock::time_point told_ = clock::now();  // of the last answer
    std::optional<example::task<>> watching_;
    bool was_late_ = false;
    tvec::timer watch_{tvec::call<&service::watch_, &service::on_watch>};
    tvec::timer report_{tvec::call<&service::report_, &service::on_report>};
    tvec::timer extend_{tvec::call<&service::extend_, &service::on_extend>};
    tvec::timer drained_{tvec::call<&service::drained_, &service::on_drained>};
    tvec::timer look_{tvec::call<&service::look_, &service::on_look>};
};

}  // namespace

int serve(const settings& o) { return service(o).run(); }

}  // namespace timers_tool
