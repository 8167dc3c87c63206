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
#include "tvec/extra/when.hpp"

namespace bench {

class awaiting {
public:
    explicit awaiting(const plan&) {}

    struct named {
        std::string_view name;
        void (awaiting::*prepare)();
        void (awaiting::*run)(std::size_t n);
    };
    static const std::array<named, 4> all;

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
    task any(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i)
            co_await tvec::when_any(tvec::sleep_for(wheel_, 1), tvec::sleep_for(wheel_, later));
    }
    task both(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i)
            co_await tvec::when_all(tvec::sleep_for(wheel_, 1), tvec::sleep_for(wheel_, 1));
    }

    tvec::timer_wheel wheel_;
};

inline constexpr std::array<awaiting::named, 4> awaiting::all{{
    {"sleep", &awaiting::nothing, &awaiting::repeat<&awaiting::sleep>},
    {"with-timeout", &awaiting::nothing, &awaiting::repeat<&awaiting::limit>},
    {"when-any", &awaiting::nothing, &awaiting::repeat<&awaiting::any>},
    {"when-all", &awaiting::nothing, &awaiting::repeat<&awaiting::both>},
}};

}  // namespace bench
