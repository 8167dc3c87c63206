/// \file
/// What guests need of Boost.Asio and of standalone Asio, by the type of an io_context.
#pragma once

#include "tvec/core/detail/standard.hpp"
#include "tvec/core/timer.hpp"

#include <utility>

// The host is the one that was included before, or both; else one that is installed.
#if !defined(ASIO_DETAIL_CONFIG_HPP) && !defined(BOOST_ASIO_DETAIL_CONFIG_HPP)
#if !defined(ASIO_STANDALONE) && __has_include(<boost/asio/io_context.hpp>)
#include <boost/asio/io_context.hpp>
#else
#include <asio/io_context.hpp>
#endif
#endif

#ifdef BOOST_ASIO_DETAIL_CONFIG_HPP
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#if __has_include(<boost/asio/associated_cancellation_slot.hpp>)  // from Boost 1.77 on
#include <boost/asio/associated_cancellation_slot.hpp>
#endif
#endif

#ifdef ASIO_DETAIL_CONFIG_HPP
#include <asio/associated_allocator.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/basic_waitable_timer.hpp>
#include <asio/dispatch.hpp>
#include <asio/error.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#if __has_include(<asio/associated_cancellation_slot.hpp>)
#include <asio/associated_cancellation_slot.hpp>
#endif
#endif

namespace tvec::detail {

template <class Context> struct asio_host {
    static_assert(sizeof(Context) == 0,
                  "an asio_guest lives in an io_context that one thread runs: docs/loops.md");
};
template <class Context, class Ticks, class Handler> class asio_sleep_of;

/// Calls assign(slot, type_of_cancellation) with the handler's cancellation slot, if it has one.
#define TVEC_ASIO_SLOTS(net)                                                                       \
    template <class Handler, class F> static void with_slot(const Handler& handler, F use) {       \
        auto slot = net::get_associated_cancellation_slot(handler);                                \
        if (slot.is_connected()) use(slot);                                                        \
    }                                                                                              \
    using cancellation_type = net::cancellation_type;
#define TVEC_ASIO_NO_SLOTS(net)                                                                    \
    template <class Handler, class F> static void with_slot(const Handler&, F) {}                  \
    enum class cancellation_type {};

#define TVEC_ASIO_HOST(net, code, slots)                                                           \
    template <> struct asio_host<net::io_context> {                                                \
        using executor = net::io_context::executor_type;                                           \
        using error_code = code;                                                                   \
        template <class Clock>                                                                     \
        using timer_on = net::basic_waitable_timer<Clock, net::wait_traits<Clock>, executor>;      \
        template <class Executor> using work_on = net::executor_work_guard<Executor>;              \
        using service = net::execution_context::service;                                           \
        using service_id = net::execution_context::id;                                             \
        template <class Handler>                                                                   \
        using executor_of = net::associated_executor_t<Handler, executor>;                         \
        template <class Handler> using allocator_of = net::associated_allocator_t<Handler>;        \
        static error_code aborted() { return net::error::operation_aborted; }                      \
        template <class Handler>                                                                   \
        static executor_of<Handler> get_executor(const Handler& handler, const executor& io) {     \
            return net::get_associated_executor(handler, io);                                      \
        }                                                                                          \
        template <class Handler>                                                                   \
        static allocator_of<Handler> get_allocator(const Handler& handler) {                       \
            return net::get_associated_allocator(handler);                                         \
        }                                                                                          \
        template <class Executor, class F> static void post(const Executor& on, F f) {             \
            net::post(on, std::move(f));                                                           \
        }                                                                                          \
        template <class Executor, class F> static void dispatch(const Executor& on, F f) {         \
            net::dispatch(on, std::move(f));                                                       \
        }                                                                                          \
        template <class Token, class F> static auto initiate(F f, Token& token) {                  \
            return net::async_initiate<Token, void(error_code)>(std::move(f), token);              \
        }                                                                                          \
        slots(net)                                                                                 \
    }

#ifdef BOOST_ASIO_ASSOCIATED_CANCELLATION_SLOT_HPP
TVEC_ASIO_HOST(boost::asio, boost::system::error_code, TVEC_ASIO_SLOTS);
#elif defined BOOST_ASIO_IO_CONTEXT_HPP
TVEC_ASIO_HOST(boost::asio, boost::system::error_code, TVEC_ASIO_NO_SLOTS);
#endif
#ifdef ASIO_ASSOCIATED_CANCELLATION_SLOT_HPP
TVEC_ASIO_HOST(asio, asio::error_code, TVEC_ASIO_SLOTS);
#elif defined ASIO_IO_CONTEXT_HPP
TVEC_ASIO_HOST(asio, asio::error_code, TVEC_ASIO_NO_SLOTS);
#endif

#undef TVEC_ASIO_HOST
#undef TVEC_ASIO_NO_SLOTS
#undef TVEC_ASIO_SLOTS

/// A sleep on the wheel of a guest, in the guest's list of sleeps.
struct asio_sleep : timer {
    /// Ends a sleep, and frees it: its handler is called with operation_aborted, or destroyed.
    using ending = void (*)(asio_sleep&, bool abandoned);

    asio_sleep(callback fire, ending f) noexcept : timer(fire), end(f) {}
    void link_behind(asio_sleep& other) noexcept {
        next = std::exchange(other.next, this);
        before = &other;
        if (next != nullptr) next->before = this;
    }
    void leave() noexcept {
        before->next = next;
        if (next != nullptr) next->before = before;
    }
    void end_all(bool abandoned) {         // of a list, whose head this is
        asio_sleep all(nullptr, nullptr);  // because a handler may own what has this list
        if (next != nullptr) (all.next = std::exchange(next, nullptr))->before = &all;
        while (all.next != nullptr) all.next->end(*all.next, abandoned);
    }

    ending end;
    asio_sleep* next = nullptr;
    asio_sleep* before = nullptr;
};

}  // namespace tvec::detail
