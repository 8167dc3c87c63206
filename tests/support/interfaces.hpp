// The interfaces that a world (world.hpp) runs through: the one in C++, and the one in C wrapped to
// look like it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/inspect/inspect.hpp"
#include "tvec/tvec.h"

// The numbers of the library for C, which has its own: as in wheel_number.hpp.
namespace tvec_in_c::detail {

struct wheel_number {
    wheel_number() noexcept;
    ~wheel_number();
    std::uint16_t number;
};

}  // namespace tvec_in_c::detail

namespace support {

// All numbers of wheels but a few, so that wheels have to share one as soon as these are taken.
template <class Number> class numbers {
public:
    static bool is_shared(const tvec::detail::wheel_number& n) {
        return tvec::detail::number_of(n.tag()) == tvec::detail::wheel_number::shared;
    }
    static bool is_shared(const tvec_in_c::detail::wheel_number& n) {
        return n.number == tvec::detail::wheel_number::shared;
    }

    // Sees to it that the next wheel has a number of its own, or shares one.
    static void prepare(bool shares) {
        static std::deque<Number> taken;
        if (!shares && !taken.empty()) taken.pop_back();
        while (shares) {
            taken.emplace_back();
            if (is_shared(taken.back())) return taken.pop_back();
        }
    }
};

struct in_cpp {
    using wheel = tvec::timer_wheel;
    using timer = tvec::timer;
    using number = tvec::detail::wheel_number;
    static constexpr bool is_whole = true;  // callbacks may throw, and be watched

    template <class Owner>
    static constexpr timer::callback call = tvec::call<&Owner::t, &Owner::on_fire>;
    template <class Owner> static Owner& owner_of(timer& t) { return tvec::owner_of<&Owner::t>(t); }
};

// The one in C++, as far as that in C has it.
struct in_cpp_as_c : in_cpp {
    static constexpr bool is_whole = false;
};

struct in_c {
    struct timer : tvec_timer {
        explicit timer(tvec_callback callback) noexcept { tvec_timer_init(this, callback); }
        timer(timer&& other) noexcept { tvec_move(this, &other); }
        timer& operator=(timer&& other) noexcept {
            if (this == &other) return *this;
            tvec_unlink(this);
            tvec_move(this, &other);
            return *this;
        }
        ~timer() { tvec_unlink(this); }

        bool pending() const { return tvec_pending(this); }
        tvec::jiffies expires() const { return tvec_expires(this); }
        bool cancel() { return tvec_cancel(this); }
        bool unlink() { return tvec_unlink(this); }
    };

    class wheel : tvec_wheel {
        using jiffies = tvec::jiffies;

    public:
        explicit wheel(jiffies now) { tvec_wheel_init(this, now); }
        ~wheel() { tvec_wheel_destroy(this); }
        wheel(const wheel&) = delete;
        wheel& operator=(const wheel&) = delete;
        static wheel& of(tvec_wheel& w) { return static_cast<wheel&>(w); }

        jiffies now() const { return tvec_now(this); }
        jiffies behind() const { return tvec_behind(this); }
        bool arm_at(timer& t, jiffies at) { return tvec_arm_at(this, &t, at); }
        bool arm_after(timer& t, jiffies delay) { return tvec_arm_after(this, &t, delay); }
        bool arm_if_pending(timer& t, jiffies at) { return tvec_arm_if_pending(this, &t, at); }
        bool arm_unless_pending(timer& t, jiffies at) {
            return tvec_arm_unless_pending(this, &t, at);
        }
        bool arm_if_earlier(timer& t, jiffies at) { return tvec_arm_if_earlier(this, &t, at); }
        bool arm_within(timer& t, jiffies earliest, jiffies latest) {
            return tvec_arm_within(this, &t, earliest, latest);
        }
        jiffies arm_next(timer& t, jiffies period) { return tvec_arm_next(this, &t, period); }

        tvec_progress advance(jiffies until, std::size_t budget) {
            return tvec_advance(this, until, budget);
        }
        template <class F> tvec_progress collect(jiffies until, std::size_t budget, F take) {
            const auto call = [](void* f, tvec_timer* t) -> bool {
                return (*static_cast<F*>(f))(static_cast<timer&>(*t));
            };
            return tvec_collect(this, until, budget, call, &take);
        }
        template <class F>
        tvec_progress advance_in_order(jiffies until, F before, std::size_t budget) {
            const auto call = [](void* f, tvec_timer* a, tvec_timer* b) -> bool {
                return (*static_cast<F*>(f))(static_cast<timer&>(*a), static_cast<timer&>(*b));
            };
            return tvec_advance_in_order(this, until, budget, call, &before);
        }
        std::optional<jiffies> next_wakeup() { return tick_of(tvec_next_wakeup(this)); }
        void on_earlier_wakeup(void (*tell)(void*) noexcept, void* whom) {
            tvec_on_earlier_wakeup(this, tell, whom);
        }
        std::optional<jiffies> next_expiry() const { return tick_of(tvec_next_expiry(this)); }
        bool any_pending() const { return tvec_any_pending(this); }
        std::size_t count_pending() const { return tvec_count_pending(this); }
        tvec_counters count() const { return tvec_count(this); }

        template <class F> bool for_each_pending(F visit) {
            const auto call = [](void* f, tvec_timer* t) -> bool {
                return (*static_cast<F*>(f))(static_cast<timer&>(*t));
            };
            return tvec_for_each_pending(this, call, &visit);
        }
        template <class F> std::size_t drain(F visit) {
            const auto call = [](void* f, tvec_timer* t) {
                (*static_cast<F*>(f))(static_cast<timer&>(*t));
            };
            return tvec_drain(this, call, &visit);
        }

        friend std::string check(const wheel& w) {
            char fault[256];
            return {fault, tvec_check(&w, fault, sizeof fault)};
        }

    private:
        static std::optional<jiffies> tick_of(jiffies tick) {
            return tick == TVEC_NEVER ? std::nullopt : std::optional(tick);
        }
    };

    using number = tvec_in_c::detail::wheel_number;
    static constexpr bool is_whole = false;

    template <class Owner> static void call(tvec_wheel* w, tvec_timer* t) {
        owner_of<Owner>(static_cast<timer&>(*t)).on_fire(wheel::of(*w));
    }
    template <class Owner> static Owner& owner_of(timer& t) { return *TVEC_OWNER_OF(&t, Owner, t); }
};

}  // namespace support
