// Loads: programs of which each call of advance is timed, too. Every load makes as many operations
// for a few timers as for many.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "workloads.hpp"

namespace bench {

struct load_figures {
    measured per_operation;  // with the calls of advance between them
    durations calls;         // of advance
};

// Counts the operations of a load, and times its calls.
template <class A> class load_run {
public:
    explicit load_run(field<A>& f) : wheel_(f.wheel()) {}

    void count(std::size_t operations) { operations_ += operations; }
    void advance(std::uint64_t until) {
        calls_.push_back(time_one([&] { wheel_.advance(until); }));
    }
    load_figures end() {
        return {all_.each_of(static_cast<double>(operations_)), std::move(calls_)};
    }

private:
    observed<A>& wheel_;
    std::size_t operations_ = 0;
    durations calls_;
    batch all_;
};

// Clustered deadlines: all timers of a burst are armed in one turn of the loop, for one tick.
struct burst_load {
    static constexpr const char* name = "burst";
    static constexpr std::uint64_t bursts = 16, apart = 200, delay = 3'000;
    static constexpr std::uint64_t ticks = bursts * apart + delay;
    static constexpr effort asks{ticks, ticks, true};

    template <class A> static load_figures run(field<A>& f) {
        load_run<A> r(f);
        A& wheel = f.wheel();
        const std::span<const std::uint32_t> order(f.what().order);
        for (std::uint64_t t = 0; t < ticks; ++t) {
            const std::uint64_t burst = t / apart;
            if (t % apart == 0 && burst < bursts) {
                const std::size_t first = f.size() * burst / bursts;
                const std::size_t end = f.size() * (burst + 1) / bursts;
                for (const std::uint32_t i : order.subspan(first, end - first))
                    wheel.arm(f.at(i), wheel.now() + delay);
                r.count(end - first);
            }
            r.advance(wheel.now() + 1);
        }
        return r.end();
    }
};

// Two timeouts, and no others. 90 % of the operations push a timer back. The others cancel one, or
// arm it again.
struct two_timeouts_load {
    static constexpr const char* name = "two timeouts";
    static constexpr std::uint64_t warm_up = plan::request, ticks = 6'000, per_tick = 100;
    static constexpr effort asks{warm_up + ticks, warm_up + ticks, true};

    template <class A> static load_figures run(field<A>& f) {
        A& wheel = f.wheel();
        for (std::uint64_t t = 0; t < warm_up; ++t) {  // so that they are not due together
            for (std::size_t i = f.size() * t / warm_up; i < f.size() * (t + 1) / warm_up; ++i)
                wheel.arm(f.at(i), wheel.now() + timeout_of(i));
            f.tick();
        }
        std::minstd_rand random(13);
        load_run<A> r(f);
        for (std::uint64_t t = 0; t < ticks; ++t) {
            for (std::uint64_t k = 0; k < per_tick; ++k) {
                const std::uint64_t drawn = random();
                const std::size_t i = drawn / 20 % f.size();
                if (drawn % 20 == 0)
                    wheel.cancel(f.at(i));
                else
                    wheel.arm(f.at(i), wheel.now() + timeout_of(i));
            }
            r.advance(wheel.now() + 1);
        }
        r.count(ticks * per_tick);
        return r.end();
    }

private:
    static std::uint64_t timeout_of(std::size_t i) {
        return i % 2 == 0 ? plan::longest : plan::request;
    }
};

// Connections of QUIC. A train of four packets re-arms the loss timer for each, some ticks earlier
// or later than before, and pushes the idle timeout back. Seven of eight trains are acknowledged,
// which cancels the loss timer.
struct quic_load {
    static constexpr const char* name = "quic";
    static constexpr std::uint64_t ticks = 2'000, trains_per_tick = 20, packets = 4;
    static constexpr std::uint64_t idle_timeout = 30'000;
    static constexpr effort asks{ticks, ticks, false};

    template <class A> static load_figures run(field<A>& f) {
        A& wheel = f.wheel();
        const std::size_t connections = f.size() / 2;
        for (std::size_t i = 0; i < connections; ++i)
            wheel.arm(f.at(2 * i), wheel.now() + 1 + idle_timeout * (i + 1) / connections);
        std::minstd_rand random(17);
        load_run<A> r(f);
        for (std::uint64_t t = 0; t < ticks; ++t) {
            const std::uint64_t now = wheel.now();
            for (std::uint64_t k = 0; k < trains_per_tick; ++k) {
                const std::uint64_t drawn = random();
                const std::size_t i = drawn / 8 % connections;
                auto &idle = f.at(2 * i), &loss = f.at(2 * i + 1);
                for (std::uint64_t p = 0; p < packets; ++p) {
                    const std::uint64_t jitter = (drawn >> 4 * p) % 11;
                    wheel.arm(loss, now + 100 + i % 200 + jitter);
                    wheel.arm(idle, now + idle_timeout);
                }
                r.count(2 * packets);
                if (drawn % 8 == 0) continue;
                wheel.cancel(loss);
                r.count(1);
            }
            r.advance(now + 1);
        }
        return r.end();
    }
};

// A game that calls once a frame. An entity has a cooldown and a thought that begin again in their
// callbacks, and an effect that ends. In each frame some effects are refreshed, some end early, and
// some cooldowns begin anew. A game has no million timers.
struct game_load {
    static constexpr const char* name = "game frame";
    static constexpr std::uint64_t frames = 500, frame = 16;
    static constexpr std::size_t most_timers = 100'000;
    static constexpr effort asks{frames, frames* frame, false};

    template <class A> static load_figures run(field<A>& f) { return game<A>(f).run(); }

private:
    enum kind { cooldown, thought, effect, all_kinds };

    template <class A> class game final : tally::follower {
    public:
        explicit game(field<A>& f)
            : field_(f), entities_(f.size() / all_kinds), deadlines_(entities_ * all_kinds) {
            seen.follow(this, frame);
            for (std::size_t i = 0; i < deadlines_.size(); ++i) {
                const std::uint64_t delay = 2 * frame + random_() % duration_of(i);
                arm(i, field_.wheel().now() + delay);
            }
        }
        // A coarse structure may have timers that are due, and would begin again.
        ~game() {
            for (std::size_t i = 0; i < deadlines_.size(); ++i) field_.wheel().cancel(field_.at(i));
            seen.follow(nullptr, frame);
        }
        game(const game&) = delete;
        game& operator=(const game&) = delete;

        load_figures run() {
            const std::size_t events = std::max<std::size_t>(field_.size() / 200, 20);
            const std::uint64_t fired_before = seen.fired();
            load_run<A> r(field_);
            for (std::uint64_t k = 0; k < frames; ++k) {
                for (std::size_t e = 0; e < events; ++e) event();
                r.advance(field_.wheel().now() + frame);
            }
            r.count(frames * events + (seen.fired() - fired_before));
            return r.end();
        }

    private:
        static std::uint64_t duration_of(std::size_t i) {
            static constexpr std::array<std::uint64_t, all_kinds> shortest{500, 250, 2'000};
            return shortest[i % all_kinds] * (1 + i / all_kinds % 5);
        }

        [[gnu::always_inline]] void arm(std::size_t i, std::uint64_t deadline) {
            deadlines_[i] = deadline;
            field_.wheel().arm(field_.at(i), deadline);
        }

        // By the deadline and not by the time of the call, so that a late call changes nothing.
        void fired(std::uint64_t i) override {
            if (i % all_kinds != effect) arm(i, deadlines_[i] + duration_of(i));
        }

        [[gnu::always_inline]] void event() {
            const std::uint64_t drawn = random_();
            const std::size_t first = drawn / 10 % entities_ * all_kinds;
            const std::uint64_t what = drawn % 10;
            if (what < 2)
                field_.wheel().cancel(field_.at(first + effect));
            else
                begin(first + (what < 5 ? cooldown : effect));
        }
        [[gnu::always_inline]] void begin(std::size_t i) {
            arm(i, field_.wheel().now() + duration_of(i));
        }

        field<A>& field_;
        std::size_t entities_;
        std::vector<std::uint64_t> deadlines_;
        std::minstd_rand random_{19};
    };
};

// A load for all structures.
struct load {
    const char* name;
    effort asks;
    std::size_t most_timers;
};

template <class L> constexpr load load_of(std::size_t most_timers = ~std::size_t{0}) {
    return {L::name, L::asks, most_timers};
}

constexpr std::array<load, 4> loads{load_of<burst_load>(), load_of<two_timeouts_load>(),
                                    load_of<quic_load>(),
                                    load_of<game_load>(game_load::most_timers)};

}  // namespace bench
