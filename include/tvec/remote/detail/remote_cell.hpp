/// \file
/// What a mailbox keeps of one function: two cache lines, with its timer and the object inside.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tvec/core/timer.hpp"
#include "tvec/pool/detail/inline_function.hpp"
#include "tvec/remote/remote_handle.hpp"

/// The atomics of a mailbox. A test has others in their place, between whose operations another
/// thread may come in.
#ifndef TVEC_REMOTE_ATOMIC
#define TVEC_REMOTE_ATOMIC std::atomic
#endif

namespace tvec::detail {

class remote_core;

/// The callback of every cell's timer.
void run_remote(timer_wheel&, timer&);

/// One word says all that threads must agree on: which function the cell holds, or held last (its
/// generation, 58 bits), what it is at, and who still has to look at it.
namespace remote_state {

inline constexpr std::uint64_t phase = 3;
inline constexpr std::uint64_t vacant = 0;     ///< holds no function
inline constexpr std::uint64_t pending = 1;    ///< going to be called
inline constexpr std::uint64_t cancelled = 2;  ///< will not be called; the owner has yet to see it
inline constexpr std::uint64_t running = 3;    ///< being called, or shown by `stop`
inline constexpr std::uint64_t queued = 4;     ///< in the mailbox: the owner will look at it
inline constexpr std::uint64_t moving = 8;    ///< somebody is writing `due`, and will queue it then
inline constexpr std::uint64_t awaited = 16;  ///< somebody sleeps until it is vacant
inline constexpr std::uint64_t offered = 32;  ///< nobody knows yet whether it is accepted
inline constexpr unsigned generation_shift = 6;

}  // namespace remote_state

struct remote_link {
    remote_link* next = nullptr;
};

struct alignas(64) remote_cell : remote_link {
    timer alarm{run_remote};  ///< the owner's alone
    remote_core* owner = nullptr;
    TVEC_REMOTE_ATOMIC<std::uint64_t> state{remote_state::vacant};
    TVEC_REMOTE_ATOMIC<jiffies> due{0};
    TVEC_REMOTE_ATOMIC<std::uint32_t> next_vacant{0};
    std::uint32_t index = 0;
    const function_kind<remote_handle>* function = nullptr;  ///< of what is in `storage`
    alignas(function_alignment) std::byte storage[function_size];

    template <class F> void hold(F&& f) {
        function = hold_function<remote_handle>(storage, std::forward<F>(f));
    }

    void drop_function() noexcept {
        assert(function != nullptr && "a function is held");
        function->destroy(storage);
    }
};

static_assert(sizeof(void*) != 8 || sizeof(TVEC_REMOTE_ATOMIC<jiffies>) != 8 ||
              sizeof(remote_cell) == 128);

}  // namespace tvec::detail
