/// \file
/// The cell of one function in a mailbox: two cache lines, with its timer and the function object
/// inside.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tvec/core/timer.hpp"
#include "tvec/mailbox/detail/mailbox_handle.hpp"
#include "tvec/mailbox/detail/mailbox_parts.hpp"
#include "tvec/pool/detail/inline_function.hpp"

namespace tvec::detail {

class mailbox_core;

/// The callback of every cell's timer.
void run_mailbox(timer_wheel&, timer&);

/// The bits of the state word, on which all threads agree. They say which function the cell holds,
/// or held last (its generation, 58 bits), its phase, and who still has to look at it.
namespace mailbox_state {

inline constexpr std::uint64_t phase = 3;
inline constexpr std::uint64_t vacant = 0;     ///< the cell holds no function
inline constexpr std::uint64_t pending = 1;    ///< the function is going to be called
inline constexpr std::uint64_t cancelled = 2;  ///< not called any more; the owner has not seen it
inline constexpr std::uint64_t running = 3;    ///< it is being called, or shown by `stop`
inline constexpr std::uint64_t queued = 4;     ///< in the mailbox: the owner will look at the cell
inline constexpr std::uint64_t moving = 8;     ///< a thread writes `due`, and then queues the cell
inline constexpr std::uint64_t awaited = 16;   ///< a thread sleeps until the cell is vacant
inline constexpr std::uint64_t offered = 32;   ///< not decided yet whether it is accepted
inline constexpr unsigned generation_shift = 6;

}  // namespace mailbox_state

struct mailbox_link {
    mailbox_link* next = nullptr;
};

struct alignas(64) mailbox_cell : mailbox_link {
    timer alarm{run_mailbox};  ///< touched by the owner only, as `armed`
    mailbox_core* owner = nullptr;
    mailbox_atomic<std::uint64_t> state{mailbox_state::vacant};
    mailbox_atomic<jiffies> due{0};
    /// The cell is counted by `mailbox_core::armed`.
    bool armed = false;
    const function_kind<mailbox_handle>* function = nullptr;  ///< operations of `storage`
    alignas(function_alignment) std::byte storage[function_size];

    template <class F> void hold(F&& f) {
        function = hold_function<mailbox_handle>(storage, std::forward<F>(f));
    }

    void drop_function() noexcept {
        assert(function != nullptr && "a function is held");
        function->destroy(storage);
    }
};

static_assert(sizeof(void*) != 8 || sizeof(mailbox_atomic<jiffies>) != 8 ||
              sizeof(mailbox_cell) == 128);

/// The result of a cancel, on its way to the function that asked for it.
template <class F> struct answering {
    F f;
    bool answer = false;
    void operator()() { static_cast<void>(f(answer)); }
};

}  // namespace tvec::detail
