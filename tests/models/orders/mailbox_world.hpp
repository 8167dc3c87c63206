// A mailbox and its threads, for the programs of the explorer. The plain members are a part of what
// is judged: each access must be ordered by the mailbox.
#pragma once

#include <cstring>
#include <new>
#include <utility>

#include "atomic.hpp"
#include "tvec/mailbox/detail/mailbox_core.hpp"

namespace orders {

// Makes a wheel, at the same address in each run, and as it was when the first was made.
ORDERS_UNSEEN inline tvec::timer_wheel& empty_wheel(bool& is_used) {
    static constinit char image[sizeof(tvec::timer_wheel)] = {};
    static constinit tvec::timer_wheel* wheel = nullptr;
    void* const place = ::operator new(sizeof image, std::align_val_t(64));
    if (!wheel) {
        wheel = new (place) tvec::timer_wheel;
        std::memcpy(image, place, sizeof image);
    }
    if (std::exchange(is_used, false)) std::memcpy(place, image, sizeof image);
    return *wheel;
}

struct world {
    static constexpr int most = 4;  // functions

    // Of one function: what its sender wrote for it, and what has become of it.
    struct entry {
        int message = 0;
        word earliest = 0, called_at = 0;
        int called = 0, destroyed = 0, cancelled = 0;
        bool is_sent = false;
    };

    explicit world(std::size_t capacity)
        : core(*new tvec::detail::mailbox_core(wheel, capacity, [this] { doorbell.ring(); })) {
        call_it(all, sizeof all, "what a function refers to");
        call_it(core.cells_.get(), capacity * sizeof(tvec::detail::mailbox_cell), "a cell");
        call_it(&told, sizeof told, "what the canceller has written");
    }

    struct function {
        function(world& h, int i) : home(&h), id(i) {}
        function(function&& other) noexcept
            : home(std::exchange(other.home, nullptr)), id(other.id) {}
        ~function() {
            if (home) home->on_destroy(home->all[id]);
        }
        void operator()() const { home->on_call(id); }

        world* home;
        int id;
    };

    void on_call(int id) {
        entry& e = all[id];
        expect(e.message == 42, "a function reads another message than was written for it");
        expect(++e.called == 1, "a function is called twice");
        e.called_at = tick;
        order[calls++] = id;
    }
    void on_destroy(entry& e) {
        expect(e.message == 42, "a destructor reads another message than was written for it");
        expect(++e.destroyed == 1, "a function is destroyed twice");
        if (self() > last_owner) return;  // a sender that is refused
        expect(!is_told || e.called != 0 || told == 7, "a destructor reads what was not told");
        ++ended;
    }

    tvec::sent send(int id, tvec::jiffies due) {
        is_wheel_used = is_wheel_used || due != 0;
        all[id].message = 42;
        all[id].earliest = due;
        tvec::detail::mailbox_reservation r(core, true);
        if (r.error() != tvec::send_error::none) return refuse(r.error());
        r.cell().hold(function(*this, id));
        const tvec::sent made = r.send(due, core.bell());
        all[id].is_sent = bool(made);
        return made ? made : refuse(made.error);
    }
    // The owner does not wait for what is refused.
    tvec::sent refuse(tvec::send_error e) {
        refused.fetch_add(1, std::memory_order_relaxed);
        doorbell.ring();
        return {{}, e};
    }
    void cancel(int id, tvec::mailbox_handle h) {
        if (core.cancel(h, core.bell())) ++all[id].cancelled;
    }
    // Then what the function refers to may change.
    bool cancel_and_wait(int id, tvec::mailbox_handle h) {
        const bool was_pending = core.cancel_and_wait(h, core.bell());
        expect(!h || all[id].destroyed == 1, "a wait ends before the function");
        all[id].message = 0;
        return was_pending;
    }
    void reschedule(int id, tvec::mailbox_handle h, tvec::jiffies due, bool is_last = true) {
        is_wheel_used = true;
        if (core.reschedule(h, due, core.bell()) && is_last) all[id].earliest = due;
    }

    void turn() {
        core.run(~std::size_t{0});
        if (core.armed() != 0) wheel.advance(++tick);
    }
    // Turns until so many functions have ended or were refused. Sleeps as often as possible.
    void loop(int functions) {
        const auto over = [this] {  // a load could be old, where nobody rings any more
            return ended + static_cast<int>(refused.fetch_add(0, std::memory_order_relaxed));
        };
        while (over() < functions) {
            core.rearm();
            if (core.armed() == 0) doorbell.sleep();
            turn();
        }
    }
    void stop(bool runs) {
        core.stop();
        for (std::uint32_t index = 0;;) {
            tvec::detail::mailbox_handover shown(core, index);
            if (!shown) return;
            if (runs) shown.run();
        }
    }
    // Lets the mailbox go, as a std::shared_ptr does.
    void let_go() {
        if (holders.fetch_add(~word{0}, std::memory_order_acq_rel) == 1) delete &core;
    }

    // What holds in the end. `stop` may drop functions, and calls them early.
    void require_that_all_ended(bool is_stopped = false, bool may_be_dropped = false) const {
        for (const entry& e : all) {
            expect(e.is_sent || e.called == 0, "a refused function is called");
            if (!e.is_sent) continue;
            expect(e.destroyed == 1, "a function is not destroyed");
            expect(e.called + e.cancelled <= 1, "a function is called and cancelled");
            expect(may_be_dropped || e.called + e.cancelled == 1, "a function is lost");
            expect(is_stopped || e.called == 0 || e.called_at >= e.earliest,
                   "a function is called early");
        }
    }

    static inline bool is_wheel_used = false;
    tvec::timer_wheel& wheel = empty_wheel(is_wheel_used);
    bell doorbell;
    tvec::detail::mailbox_core& core;
    atomic<word> refused{0}, holders{2};
    entry all[most];
    int order[most] = {}, calls = 0, ended = 0, told = 0;
    bool is_told = false;
    word tick = 0, last_owner = 1;
};

// Gives a handle to another thread, as a queue with a lock does.
struct hand_over {
    void give(tvec::mailbox_handle h) {
        handle = h;
        is_full.fetch_or(1, std::memory_order_acq_rel);
    }
    tvec::mailbox_handle take() {
        is_full.take(std::memory_order_acq_rel);
        return handle;
    }

    tvec::mailbox_handle handle;
    atomic<word> is_full{0};
};

}  // namespace orders
