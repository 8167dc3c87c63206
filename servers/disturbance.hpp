// Disturbances for the soak test: a callback that blocks now and then, and timers that move each
// other about from their callbacks.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "timer_books.hpp"

namespace example {

class disturbance {
public:
    using milliseconds = std::chrono::milliseconds;

    struct extent {
        unsigned stall_ms = 0;  // how long a callback blocks; 0: none does
        unsigned stall_every_ms = 1000;
        unsigned restless = 0;  // timers that move each other
    };

    disturbance(timer_books& books, const extent& e) : books_(books), extent_(e) {
        if (extent_.stall_ms != 0)
            books_.arm(stall_, stall_deadline_, milliseconds(extent_.stall_every_ms));
        for (unsigned i = 0; i < extent_.restless; ++i) {
            restless_.push_back(std::make_unique<restless>(*this));
            restless_.back()->arm();
        }
    }
    disturbance(const disturbance&) = delete;
    disturbance& operator=(const disturbance&) = delete;

    void look_after() {
        books_.look_after(stall_, stall_deadline_);
        for (const auto& r : restless_) books_.look_after(r->due, r->deadline);
    }

    void stop() {
        books_.cancel(stall_, stall_deadline_);
        for (const auto& r : restless_) books_.cancel(r->due, r->deadline);
    }

private:
    struct restless {
        explicit restless(disturbance& d) : home(d) {}
        void arm() { home.books_.arm(due, deadline, home.some_time()); }
        void on_due() {
            home.books_.fired(deadline);
            arm();
            home.disturb(home.any());
        }
        disturbance& home;
        time_point deadline;
        tvec::timer due{tvec::call<&restless::due, &restless::on_due>};
    };

    // From the next tick to beyond the root's reach.
    milliseconds some_time() { return milliseconds(random_() % (2U << random_() % 12)); }
    restless& any() { return *restless_[random_() % restless_.size()]; }

    // Moves it, in either direction, or cancels it and arms it anew.
    void disturb(restless& r) {
        if (random_() % 2 == 0) books_.cancel(r.due, r.deadline);
        r.arm();
    }

    void on_stall() {
        books_.fired(stall_deadline_);
        std::this_thread::sleep_for(milliseconds(extent_.stall_ms));
        books_.arm(stall_, stall_deadline_, milliseconds(extent_.stall_every_ms));
    }

    timer_books& books_;
    extent extent_;
    std::mt19937 random_{6};
    time_point stall_deadline_;
    tvec::timer stall_{tvec::call<&disturbance::stall_, &disturbance::on_stall>};
    std::vector<std::unique_ptr<restless>> restless_;
};

}  // namespace example
