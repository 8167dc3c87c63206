/// \file
/// What guests need of Boost.Asio and of standalone Asio, by the type of an io_context.
#pragma once

#include "tvec/core/detail/standard.hpp"
#include "tvec/core/timer.hpp"

#include <chrono>
#include <type_traits>
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
#if __has_include(<boost/asio/associated_cancellation_slot.hpp>)
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

/// The names of an Asio by its io_context. The slots of cancellation came with Boost 1.77.
template <class Context> struct asio_host {
    static_assert(sizeof(Context) == 0,
                  "an asio_guest lives in an io_context that one thread runs: docs/loops.md");
};
template <class Context, class Ticks, class Handler> class asio_sleep_of;

#ifdef BOOST_ASIO_IO_CONTEXT_HPP
template <> struct asio_host<boost::asio::io_context> {
    using error_code = boost::system::error_code;
    static constexpr auto aborted = boost::asio::error::operation_aborted;
    using execution = boost::asio::execution_context;
    using executor = boost::asio::io_context::executor_type;
    using timer = boost::asio::basic_waitable_timer<
        std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, executor>;
    template <class Executor> using work_on = boost::asio::executor_work_guard<Executor>;
    template <class Handler>
    using executor_of = boost::asio::associated_executor<Handler, executor>;
    template <class Handler> using allocator_of = boost::asio::associated_allocator<Handler>;
#ifdef BOOST_ASIO_ASSOCIATED_CANCELLATION_SLOT_HPP
    template <class Handler> static auto slot_of(const Handler& handler) {
        return boost::asio::get_associated_cancellation_slot(handler);
    }
#endif
    template <class Executor, class F> static void post(const Executor& on, F f) {
        boost::asio::post(on, std::move(f));
    }
    template <class Executor, class F> static void dispatch(const Executor& on, F f) {
        boost::asio::dispatch(on, std::move(f));
    }
    template <class Token, class F> static auto initiate(F f, Token& token) {
        return boost::asio::async_initiate<Token, void(error_code)>(std::move(f), token);
    }
};
#endif

#ifdef ASIO_IO_CONTEXT_HPP
template <> struct asio_host<asio::io_context> {
    using error_code = asio::error_code;
    static constexpr auto aborted = asio::error::operation_aborted;
    using execution = asio::execution_context;
    using executor = asio::io_context::executor_type;
    using timer =
        asio::basic_waitable_timer<std::chrono::steady_clock,
                                   asio::wait_traits<std::chrono::steady_clock>, executor>;
    template <class Executor> using work_on = asio::executor_work_guard<Executor>;
    template <class Handler> using executor_of = asio::associated_executor<Handler, executor>;
    template <class Handler> using allocator_of = asio::associated_allocator<Handler>;
#ifdef ASIO_ASSOCIATED_CANCELLATION_SLOT_HPP
    template <class Handler> static auto slot_of(const Handler& handler) {
        return asio::get_associated_cancellation_slot(handler);
    }
#endif
    template <class Executor, class F> static void post(const Executor& on, F f) {
        asio::post(on, std::move(f));
    }
    template <class Executor, class F> static void dispatch(const Executor& on, F f) {
        asio::dispatch(on, std::move(f));
    }
    template <class Token, class F> static auto initiate(F f, Token& token) {
        return asio::async_initiate<Token, void(error_code)>(std::move(f), token);
    }
};
#endif

/// The Asio that an executor is of, or is written for. Its own namespace may be a user's.
#if !defined(ASIO_IO_CONTEXT_HPP)
template <class Executor> using asio_of = asio_host<boost::asio::io_context>;
#elif !defined(BOOST_ASIO_IO_CONTEXT_HPP)
template <class Executor> using asio_of = asio_host<asio::io_context>;
#else
template <class Executor>
using asio_of = asio_host<
    std::conditional_t<asio::can_require<Executor, asio::execution::blocking_t::never_t>::value,
                       asio::io_context, boost::asio::io_context>>;
#endif

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
