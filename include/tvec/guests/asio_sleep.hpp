/// \file
/// Sleeps on a wheel for Asio's coroutines, and for any other completion token.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "tvec/core/timer.hpp"
#include "tvec/guests/asio_guest.hpp"

namespace tvec {

namespace detail {

/// A handler that waits for its timer, in memory of the handler's allocator.
template <class Context, class Ticks, class Handler> class asio_sleep_of : public asio_sleep {
    using guest_type = asio_guest<Context, Ticks>;
    using host = asio_host<Context>;
    using executor_of_handler = typename host::template executor_of<Handler>;
    using allocator_of_handler = typename host::template allocator_of<Handler>;
    using allocator = typename allocator_of_handler::type;
    using error_code = typename host::error_code;

public:
    static void start(guest_type& guest, typename guest_type::wheel_type::time_point deadline,
                      Handler handler) {
        memory m(allocator_of_handler::get(handler));
        auto* const at = std::allocator_traits<memory>::allocate(m, 1);
        asio_sleep_of* op = nullptr;
        try {
            op = ::new (static_cast<void*>(at)) asio_sleep_of(guest, std::move(handler));
        } catch (...) {
            std::allocator_traits<memory>::deallocate(m, at, 1);
            throw;
        }
        op->link_behind(guest.host().sleeps());
        op->with_slot([op](auto& slot) { slot.assign(canceller{op}); });
        guest->arm_at(*op, deadline);
    }

private:
    using memory = typename std::allocator_traits<allocator>::template rebind_alloc<asio_sleep_of>;

    /// Called by the slot, which destroys it when it gets another function.
    struct canceller {
        template <class Type> void operator()(Type type) {
            using kind = Type;
            constexpr Type any = kind::terminal | kind::partial | kind::total;
            if (op != nullptr && (type & any) != kind::none)
                std::exchange(op, nullptr)->complete(host::aborted);
        }
        asio_sleep_of* op;
    };

    using own_work = typename host::template work_on<typename executor_of_handler::type>;

    /// The handler and its argument.
    struct call {
        using allocator_type = allocator;
        allocator_type get_allocator() const noexcept { return allocator_of_handler::get(handler); }
        void operator()() { std::move(handler)(error); }
        Handler handler;
        error_code error;
    };
    /// What is posted to the io_context, from which the handler's executor is reached.
    struct completion : call {
        void operator()() {
            const auto on = own.get_executor();
            host::dispatch(on, call(std::move(static_cast<call&>(*this))));
        }
        own_work own;
    };

    asio_sleep_of(guest_type& guest, Handler&& handler)
        : asio_sleep(&fire, &end), handler_(std::move(handler)), io_(guest.host().executor()),
          own_(executor_of_handler::get(handler_, guest.host().executor())) {}

    /// Calls use(slot) with the cancellation slot of the handler, if it has one.
    template <class F> void with_slot(F use) {
        if constexpr (requires { host::slot_of(handler_); }) {
            auto slot = host::slot_of(handler_);
            if (slot.is_connected()) use(slot);
        }
    }
    static void fire(timer_wheel&, timer& t) {
        auto& op = static_cast<asio_sleep_of&>(t);
        op.with_slot([](auto& slot) { slot.clear(); });
        op.complete({});
    }
    static void end(asio_sleep& s, bool abandoned) {
        auto& op = static_cast<asio_sleep_of&>(s);
        op.with_slot([](auto& slot) { slot.clear(); });
        if (abandoned) return static_cast<void>(op.taken());
        op.complete(host::aborted);
    }
    void complete(error_code error) {
        const auto io = io_.get_executor();
        own_work own = std::move(own_);
        host::post(io, completion{{taken(), error}, std::move(own)});
    }
    /// Frees the memory, which the handler may use again, and returns the handler.
    Handler taken() {
        leave();
        memory m(allocator_of_handler::get(handler_));
        Handler handler(std::move(handler_));
        this->~asio_sleep_of();
        std::allocator_traits<memory>::deallocate(m, this, 1);
        return handler;
    }

    Handler handler_;
    typename host::template work_on<typename host::executor> io_;
    own_work own_;
};

}  // namespace detail

/// Completes with an error_code when the clock has reached `deadline`, on the executor of the
/// handler: an asynchronous operation by Asio's rules, for any completion token.
///
///     co_await tvec::async_sleep_until(timers, deadline, use_awaitable);
///     co_await (socket.async_read_some(buffer, use_awaitable) ||
///               tvec::async_sleep_for(timers, 5s, use_awaitable));
///
/// A sleep counts as work of the io_context. It ends early with operation_aborted by the handler's
/// cancellation slot (all types; Boost 1.74 has no slots), on the guest's thread, or when the guest
/// is destroyed. If the io_context is destroyed first, so is the handler. Its memory comes from the
/// handler's allocator, and is free before the handler is posted. Requires an io_context that is
/// not destroyed.
template <class Context, class Ticks, class Token>
auto async_sleep_until(asio_guest<Context, Ticks>& guest,
                       typename clocked_wheel<Ticks>::time_point deadline, Token&& token) {
    const auto start = [&guest, deadline](auto handler) {
        detail::asio_sleep_of<Context, Ticks, decltype(handler)>::start(guest, deadline,
                                                                        std::move(handler));
    };
    return detail::asio_host<Context>::template initiate<Token>(start, token);
}

/// Completes when `delay` has passed from this call.
template <class Context, class Ticks, detail::countable Rep, class Period, class Token>
auto async_sleep_for(asio_guest<Context, Ticks>& guest, std::chrono::duration<Rep, Period> delay,
                     Token&& token) {
    return async_sleep_until(guest, guest->after(delay), std::forward<Token>(token));
}

}  // namespace tvec
