// Durable timers to be measured, and what they are given to do; the same on every store.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "../examples/support/figures.hpp"
#include "tvec/durable/timers.hpp"
#include "tvec/timerfd_alarm.hpp"

namespace bench {

using namespace std::chrono_literals;
using namespace tvec::durable;
using steady = std::chrono::steady_clock;
using example::seconds_of;

struct load {
    unsigned rate = 10'000, seconds = 8;
};

inline const std::string body(64, 'b');

inline time_point today() { return std::chrono::floor<duration>(std::chrono::system_clock::now()); }

// Twenty bytes, in order or not.
inline std::string id_of(std::uint64_t n, bool in_order) {
    return fmt::format("{:020}", in_order ? n : n * 11400714819323198485ULL);
}

class on_tvec {
public:
    using handler = std::function<void(const delivery&)>;

    on_tvec(store& s, handler h)
        : timers_(wheel_, s, [h = std::move(h), this](const delivery& d) {
              h(d);
              timers_.done(d.which);
          }) {}

    void turn(int at_most_ms = 1'000) {
        alarm_.rearm();
        pollfd watched[] = {{alarm_.fd(), POLLIN, 0}, {timers_.fd(), POLLIN, 0}};
        poll(watched, 2, at_most_ms);
        if (watched[0].revents != 0) alarm_.acknowledge();
        wheel_.run();
        timers_.run();
    }

    // As many at once as are not answered anyway, at most `in_flight`.
    void put(std::uint64_t n, std::size_t in_flight, std::function<record(std::uint64_t)> make) {
        for (std::uint64_t asked = 0; answered_ < n; turn())
            for (; asked < n && asked - answered_ < in_flight; ++asked) put(make(asked));
        answered_ = 0;
    }
    void put(record r) {
        const refusal refused = timers_.put(std::move(r), existing::keep, [this](put_result p) {
            if (p != put_result::stored) throw std::runtime_error("a put was not stored");
            ++answered_;
        });
        if (refused != refusal::none) throw std::runtime_error(to_text(refused));
    }

    timers<>& all() { return timers_; }

private:
    tvec::clocked_wheel<> wheel_;
    tvec::timerfd_alarm<tvec::clocked_wheel<>> alarm_{wheel_};
    std::uint64_t answered_ = 0;
    timers<> timers_;
};

inline double per_second(std::uint64_t n, const std::function<void()>& work) {
    const auto begun = steady::now();
    work();
    return static_cast<double>(n) / seconds_of(steady::now() - begun);
}

// At a steady rate, due one to five seconds later.
class arrivals {
public:
    explicit arrivals(const load& s) : s_(s) {}
    bool over() const { return steady::now() >= begun_ + std::chrono::seconds(s_.seconds); }
    template <class F> void run(F put) {
        const double until = std::min<double>(seconds_of(steady::now() - begun_), s_.seconds);
        for (; static_cast<double>(sent_) < until * s_.rate; ++sent_)
            put(id_of(sent_, false), today() + 1s + duration(random_() % 4'000));
    }
    std::uint64_t sent() const { return sent_; }

private:
    const load& s_;
    steady::time_point begun_ = steady::now();
    std::uint64_t sent_ = 0;
    std::mt19937_64 random_{7};
};

inline void print_lateness(const char* what, const tvec::lateness_histogram& late, double cpu) {
    fmt::print("lateness, {:<18} {}, {} early, {:.1f} % of a core\n", what, example::spread(late),
               late.early(), 100 * cpu);
}

inline double cpu_share(double before, steady::time_point begun) {
    return (example::cpu_seconds(RUSAGE_SELF) - before) / seconds_of(steady::now() - begun);
}

}  // namespace bench
