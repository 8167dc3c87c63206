/// \file
/// Timers for an io_context that several threads run, of Boost.Asio or of standalone Asio.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "tvec/clock/clocked_wheel.hpp"
#include "tvec/core/call.hpp"
#include "tvec/guests/asio_guest.hpp"
#include "tvec/guests/detail/asio_host.hpp"
#include "tvec/guests/guest.hpp"

namespace tvec {

class asio_shared_timer;

namespace detail {

/// What the threads of an io_context share: a wheel, its lock, and the calls of the turn that is
/// running.
class shared_wheel {
public:
    /// An expired timer: its owner, which it keeps, and what sends the call to its executor.
    struct taken {
        std::shared_ptr<void> owner;
        void (*send)(const std::shared_ptr<void>& owner);
        asio_shared_timer* timer;
    };

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    bool has_calls() const noexcept { return end_ != 0; }

    /// Sends the calls without the lock, which the caller holds. After one that throws the others
    /// come first next time.
    void pause() {
        if (!has_calls()) return;
        unlock();
        struct relock {
            ~relock() { self.lock(); }
            shared_wheel& self;
        } const end{*this};
        while (sent_ != end_) send(std::move(calls_[sent_++]));
        sent_ = end_ = 0;
    }
    /// Gives up what an exception has left over.
    void drop_calls() noexcept {
        while (sent_ != end_) calls_[sent_++].owner.reset();
        sent_ = end_ = 0;
    }
    /// Takes a call out of the wheel. Under the lock.
    void add(taken call) noexcept {
        assert(end_ != calls_.size() && "a turn sends between its portions of visits");
        calls_[end_++] = std::move(call);
    }

    clocked_wheel<>* timers = nullptr;  ///< under the lock

private:
    void send(taken call);

    std::mutex mutex_;
    std::array<taken, visits_in_a_turn> calls_;  ///< of the turn: there is one at a time
    std::size_t sent_ = 0, end_ = 0;
};

template <auto Hook, auto Method, class Owner> struct posted;

/// Returns whether an `Owner` can be kept alive by a call. If not, the compiler says why.
template <class Owner> consteval bool is_shared_owner() {
    constexpr bool is_shared = requires(Owner & o) {
        { o.weak_from_this().lock() } -> std::convertible_to<std::shared_ptr<void>>;
    };
    constexpr bool has_executor = requires(Owner & o) { o.get_executor(); };
    static_assert(is_shared, "the owner of an asio_shared_timer derives publicly from "
                             "std::enable_shared_from_this, because a call keeps it alive");
    static_assert(!is_shared || has_executor,
                  "the owner of an asio_shared_timer says where it is called: auto get_executor()");
    return is_shared && has_executor;
}

/// Returns whether an `Owner` has `Hook`, and a call can call `Method`. If not, the compiler says
/// why.
template <auto Hook, auto Method, class Owner> consteval bool is_posted_method() {
    constexpr bool is_own = is_method_of<Hook, Method, Owner>();
    constexpr bool takes_nothing = std::is_invocable_v<decltype(Method), Owner&>;
    static_assert(!is_own || takes_nothing,
                  "the method of a posted_call takes nothing: void on_idle()");
    return is_own && takes_nothing;
}

}  // namespace detail

/// The wheel of an io_context that several threads run, a service of it: made by
/// use_service<asio_shared_wheel<io_context>>(io) before there are threads, and destroyed with io.
template <class Context>
class asio_shared_wheel : public detail::asio_host<Context>::execution::service,
                          guest<detail::asio_alarm<Context, detail::shared_wheel>> {
public:
    using key_type = asio_shared_wheel;                                   ///< for use_service
    static inline typename detail::asio_host<Context>::execution::id id;  ///< for use_service

    /// For use_service.
    explicit asio_shared_wheel(Context& io)
        : detail::asio_host<Context>::execution::service(io), asio_shared_wheel::guest(io) {
        this->host().timers = &**this;
        this->host().timers->wheel().share_by_lock();
    }
    ~asio_shared_wheel() override {
        assert(!this->host().timers->wheel().any_pending() && "no owner outlives the io_context");
    }

private:
    friend class asio_shared_timer;
    void shutdown() noexcept override { this->host().drop_calls(); }  // while owners may end
};

/// A timer for an io_context that several threads run: 48 bytes in an object that is owned by
/// std::shared_ptr, and whose method it calls on the executor of that object, usually a strand.
///
///     struct session : std::enable_shared_from_this<session> {
///         session(tcp::socket s, tvec::asio_shared_wheel<io_context>& timers)
///             : socket(std::move(s)),
///               idle(timers, tvec::posted_call<&session::idle, &session::on_idle>) {}
///         auto get_executor() { return socket.get_executor(); }
///         void on_idle();
///         ...
///
/// **Any thread** may arm, push back and cancel a timer at any time. **A call** comes at the
/// deadline or later, within io.run(), under no lock; on a strand one at a time.
///
/// **After a true cancel, or another arm, no call comes** for what was armed before, even if the
/// timer had expired and the call was waiting for the strand. On the strand that is certain. From
/// elsewhere the call may be running: `cancel` then returns false, and does not wait for its end.
///
/// **A pending timer keeps nothing alive**, neither its owner nor io.run(). A call on its way keeps
/// the owner, and none comes once no std::shared_ptr is left: what expires then is dropped.
///
/// **The owner** derives from std::enable_shared_from_this, and is held by a std::shared_ptr before
/// a timer of it is armed: no constructor arms one. Any thread of io.run() calls its
/// get_executor(), also while others use the owner: so it must not change. If that or the executor
/// throws, the exception leaves io.run(), and the call is sent again on the next tick. The others
/// go on when io.run() is called again. No owner outlives the io_context. Debug builds assert both.
/// A deleter that gives the owner back to a pool instead of destroying it calls `unlink` of each
/// timer, after which no thread looks at the owner until one is armed again.
///
/// **Cost.** A push-back, a cancel, and an arm after a cancel are one compare-and-swap in the
/// timer. The lock of the wheel is taken to arm what is not in the wheel, to arm for earlier, and
/// to unlink or destroy what is in it. A turn gives it back after each 256 visits. Each expiry
/// posts a call, which keeps the owner until its executor has come to it, also if the timer was
/// armed anew.
///
/// **Turns and stalls** are those of every `guest`. After a stall a peer may be judged whose input
/// another thread has taken and not yet handled: one for each thread or, where threads wait for
/// processors, more.
class asio_shared_timer : timer {
    using wheel_type = clocked_wheel<>;

public:
    using clock = wheel_type::clock;            ///< the clock
    using time_point = wheel_type::time_point;  ///< of the clock

    /// Makes a timer that `expire`, a posted_call, calls.
    template <class Context>
    asio_shared_timer(asio_shared_wheel<Context>& timers, timer::callback expire) noexcept
        : timer(expire), home_(timers.host()) {}
    asio_shared_timer(const asio_shared_timer&) = delete;
    asio_shared_timer& operator=(const asio_shared_timer&) = delete;
    ~asio_shared_timer() { unlink(); }

    /// Arms for the time `deadline`, in the place of what was armed before. Returns whether a call
    /// was to come.
    bool arm_at(time_point deadline) noexcept {
        const jiffies tick = std::min(home_.timers->ticks().ceil(deadline), last);
        const std::uint64_t goal = tick << shift | linked | armed;
        std::uint64_t w = word_.load();
        while ((w & linked) && w >> shift <= goal >> shift)  // its place is early enough
            if (word_.compare_exchange_weak(w, goal)) return w & (armed | expired);
        return arm_under_lock(goal);
    }
    /// Arms for the time `delay` from now.
    template <class Rep, class Period>
    bool arm_after(std::chrono::duration<Rep, Period> delay) noexcept {
        return arm_at(wheel_type::after(delay));
    }
    /// Returns whether a call was to come. If so, it does not.
    bool cancel() noexcept { return take(armed | expired); }
    /// Cancels, and leaves the wheel, after a visit that is going on. Returns what `cancel`
    /// returns.
    bool unlink() noexcept {
        if (!(word_.load() & linked)) return cancel();
        const std::lock_guard under(home_);
        timer::unlink();
        return word_.exchange(0) & (armed | expired);
    }
    /// Returns whether a call is to come.
    bool pending() const noexcept { return word_.load() & (armed | expired); }

private:
    friend class detail::shared_wheel;
    template <auto, auto, class> friend struct detail::posted;
    template <class Owner, auto Hook, std::size_t I>
    friend Owner& detail::owner_around(tvec::timer& t) noexcept;

    // The word: the deadline, and three bits. Only threads with the lock set or clear `linked`. All
    // its operations are sequentially consistent: weaker ones would save nothing but on ARM.
    static constexpr std::uint64_t linked = 1;   ///< in the wheel, at the deadline or earlier
    static constexpr std::uint64_t armed = 2;    ///< to expire
    static constexpr std::uint64_t expired = 4;  ///< the call is on its way
    static constexpr unsigned shift = 3;
    static constexpr jiffies last = never >> shift;

    /// Clears `bits`. Returns whether one of them was set.
    bool take(std::uint64_t bits) noexcept {
        std::uint64_t w = word_.load();
        while (w & bits)
            if (word_.compare_exchange_weak(w, w & ~bits)) return true;
        return false;
    }
    void place(jiffies tick) noexcept {
        home_.timers->wheel().arm_at(*this, tick == last ? never : tick);
    }
    bool arm_under_lock(std::uint64_t goal) noexcept {
        const std::lock_guard under(home_);
        const std::uint64_t w = word_.exchange(goal);
        if (!(w & linked) || goal >> shift < w >> shift) place(goal >> shift);
        return w & (armed | expired);
    }
    /// What a visit finds, under the lock: takes out of the wheel, with a share of its owner, what
    /// is due. What is idle leaves the wheel, and what was pushed back is placed anew. A share is
    /// never given back here: the owner's destructor takes the lock.
    template <class Share>
    void visit(jiffies now, Share share, void (*send)(const std::shared_ptr<void>&)) noexcept {
        std::shared_ptr<void> owner;
        for (std::uint64_t w = word_.load();;) {
            const jiffies tick = w >> shift;
            if ((w & armed) && tick > now) {
                place(tick);
                break;
            }
            // None is left: the owner is being destroyed or given back. Nobody is to be called.
            if ((w & armed) && !owner) owner = share();
            const std::uint64_t left = w & ~(linked | armed);
            const bool calls = (w & armed) && owner;
            if (word_.compare_exchange_weak(w, calls ? left | expired : left)) break;
        }
        if (owner)
            home_.add({std::move(owner), send, this});  // if it was pushed back, calls nothing
    }
    /// Takes back an expiry whose call was not sent, under the lock.
    void expire_again() noexcept {
        const jiffies tick = home_.timers->wheel().now() + 1;
        for (std::uint64_t w = word_.load(); w & expired;)  // else it was cancelled or armed anew
            if (word_.compare_exchange_weak(w, tick << shift | linked | armed)) return place(tick);
    }

    std::atomic<std::uint64_t> word_{0};
    detail::shared_wheel& home_;
};

static_assert(sizeof(void*) != 8 || sizeof(asio_shared_timer) == 48);

namespace detail {

/// If that throws, the timer expires again. Its owner ends without the lock.
inline void shared_wheel::send(taken call) {
    struct end_of_sending {
        ~end_of_sending() {
            if (is_sent) return;
            const std::lock_guard under(self);
            timer.expire_again();
        }
        shared_wheel& self;
        asio_shared_timer& timer;
        bool is_sent = false;
    } end{*this, *call.timer};
    call.send(call.owner);
    end.is_sent = true;
}

/// The functions of a posted_call.
template <auto Hook, auto Method, class Owner> struct posted {
    static void expire(timer_wheel& wheel, timer& t) {
        if constexpr (is_hook<Hook>() && is_posted_method<Hook, Method, Owner>() &&
                      is_shared_owner<Owner>()) {
            Owner& owner = owner_around<Owner, Hook, 0>(t);
            (owner.*Hook)
                .visit(
                    wheel.now(), [&] { return share(owner); }, &send);
        }
    }
    // Its pointer is the owner's address, from which `send` makes an Owner again. What derives from
    // enable_shared_from_this may be a base that lies elsewhere in it.
    static std::shared_ptr<void> share(Owner& owner) noexcept {
        const auto weak = owner.weak_from_this();
        [[maybe_unused]] const decltype(owner.weak_from_this()) none;
        assert((weak.owner_before(none) || none.owner_before(weak)) &&
               "a std::shared_ptr holds the owner before its timer is armed");
        const auto held = weak.lock();
        return held ? std::shared_ptr<void>(held, std::addressof(owner)) : nullptr;
    }
    static void send(const std::shared_ptr<void>& owner) {
        auto self = std::static_pointer_cast<Owner>(owner);
        const auto executor = self->get_executor();
        asio_of<decltype(self->get_executor())>::post(executor, [self = std::move(self)] {
            if (((*self).*Hook).take(asio_shared_timer::expired)) ((*self).*Method)();
        });
    }
};

}  // namespace detail

/// The callback of an asio_shared_timer, which calls `Method`, without arguments, on the executor
/// of the object that holds the timer as `Hook`.
template <auto Hook, auto Method, class Owner = detail::owner_for<Hook, Method>>
inline constexpr timer::callback posted_call = &detail::posted<Hook, Method, Owner>::expire;

}  // namespace tvec
