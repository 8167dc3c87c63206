// Coroutines that await timers on a tvec wheel, ready to be repeated, as single_operations.hpp has
// the operations. Each await comes with the tick that ends it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "../../examples/support/task.hpp"
#include "plan.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/coroutines/sleep.hpp"

namespace bench {

class awaiting {
public:
    explicit awaiting(const plan&) {}

    struct named {
        std::string_view name;
        void (awaiting::*prepare)();
        void (awaiting::*run)(std::size_t n);
    };
    static const std::array<named, 2> all;

private:
    using task = example::task<>;
    static constexpr tvec::jiffies later = 100;

    void nothing() {}

    template <task (awaiting::*of)(std::size_t)> void repeat(std::size_t n) {
        task t = (this->*of)(n);
        t.start();
        for (std::size_t i = 0; i < n; ++i) wheel_.advance(wheel_.now() + 1);
    }

    task sleep(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) co_await tvec::sleep_for(wheel_, 1);
    }
    task limit(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i)
            co_await tvec::with_timeout(wheel_, tvec::sleep_for(wheel_, 1), later);
    }

    tvec::timer_wheel wheel_;
};

inline constexpr std::array<awaiting::named, 2> awaiting::all{{
    {"sleep", &awaiting::nothing, &awaiting::repeat<&awaiting::sleep>},
    {"with-timeout", &awaiting::nothing, &awaiting::repeat<&awaiting::limit>},
}};

}  // namespace bench
