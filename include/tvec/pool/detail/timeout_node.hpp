/// \file
/// The node of one timeout: two cache lines, with the function object inside.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tvec/clock/detail/missed_periods.hpp"
#include "tvec/core/timer.hpp"
#include "tvec/pool/detail/inline_function.hpp"
#include "tvec/pool/detail/timeout_handle.hpp"

namespace tvec::detail {

class timeout_core;

/// The callback of every node's timer.
void run_timeout(timer_wheel&, timer&);

/// The operations of a timeout's function.
using timeout_kind = function_kind<const timeout_call&>;

/// The state of a node. The function of a `running` node is being called.
enum class timeout_phase : std::uint8_t {
    unused,             ///< not scheduled yet: nobody has its handle
    pending,            ///< armed
    running,            ///< ends as fired
    running_again,      ///< armed for the next time
    running_cancelled,  ///< ends as cancelled
    handed_over,        ///< shown to the visitor of `stop`, or taken
    fired,
    cancelled,
};

struct alignas(64) timeout_node {
    static constexpr std::size_t function_size = detail::function_size;
    static constexpr std::size_t function_alignment = detail::function_alignment;

    timer alarm{run_timeout};
    timeout_core* owner = nullptr;
    const timeout_kind* function = nullptr;  ///< operations of the object in `storage`
    jiffies due = 0;     ///< the deadline, even while the alarm is set for an earlier tick
    jiffies period = 0;  ///< 0: once
    std::uint32_t index = 0;
    std::uint32_t generation = 0;  ///< of the timeout that it holds, or held last
    std::uint32_t next_free = 0;
    timeout_phase phase = timeout_phase::unused;
    missed_periods policy = missed_periods::skip;
    bool at_once = false;  ///< a periodic timeout with an extra first call when the alarm fires
    bool paused = false;   ///< by its group: it does not run early
    alignas(function_alignment) std::byte storage[function_size];

    /// Returns whether the alarm is set for a call of the function.
    bool armed() const noexcept {
        return phase == timeout_phase::pending || phase == timeout_phase::running_again;
    }

    /// Returns the deadline of the next call.
    jiffies deadline() const noexcept { return at_once ? alarm.expires() : due; }

    template <class F> void hold(F&& f) {
        function = hold_function<const timeout_call&>(storage, std::forward<F>(f));
    }

    void drop_function() noexcept {
        assert(function != nullptr && "a function is held");
        function->destroy(storage);
    }
};

static_assert(sizeof(void*) != 8 || sizeof(timeout_node) == 128);

}  // namespace tvec::detail
