/// \file
/// What a pool keeps of one timeout: two cache lines, with the function object inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "tvec/timeout_handle.hpp"
#include "tvec/timer.hpp"

namespace tvec::detail {

class timeout_core;

/// The callback of every node's timer.
void run_timeout(timer_wheel&, timer&);

/// What can be done with a function object whose type is forgotten.
struct function_kind {
    void (*call)(void* f, const timeout_call& c);
    void (*destroy)(void* f) noexcept;
};

template <class F> struct function_kind_of {
    static void call(void* f, const timeout_call& c) {
        F& function = *std::launder(static_cast<F*>(f));
        if constexpr (std::is_invocable_v<F&, const timeout_call&>)
            static_cast<void>(function(c));
        else
            static_cast<void>(function());
    }
    static void destroy(void* f) noexcept { std::launder(static_cast<F*>(f))->~F(); }

    static constexpr function_kind value{call, destroy};
};

/// What a node's timeout is at. The first three are armed on the wheel or were; the running ones
/// have a function that is being called.
enum class timeout_phase : std::uint8_t {
    unused,             ///< not scheduled yet; nobody has a handle
    pending,            ///< armed
    running,            ///< ends as fired
    running_again,      ///< armed for a next time
    running_cancelled,  ///< ends as cancelled
    handed_over,        ///< with the visitor of `stop`
    fired,
    cancelled,
};

struct alignas(64) timeout_node {
    static constexpr std::size_t function_size = 48;
    static constexpr std::size_t function_alignment = 16;

    timer alarm{run_timeout};
    timeout_core* owner = nullptr;
    const function_kind* function = nullptr;  ///< of what is in `storage`
    jiffies due = 0;     ///< the deadline, also while the alarm is set for an earlier tick
    jiffies period = 0;  ///< 0: once
    std::uint32_t index = 0;
    std::uint32_t generation = 0;  ///< of the timeout it holds, or held last
    std::uint32_t next_free = 0;
    timeout_phase phase = timeout_phase::unused;
    missed_periods policy = missed_periods::skip;
    alignas(function_alignment) std::byte storage[function_size];

    /// Whether the alarm is set for a time that the function will be called.
    bool armed() const noexcept {
        return phase == timeout_phase::pending || phase == timeout_phase::running_again;
    }

    template <class F> void hold(F&& f) {
        using object = std::decay_t<F>;
        static_assert(sizeof(object) <= function_size,
                      "a timeout's function object has at most 48 bytes: capture a pointer to "
                      "what it needs, or a std::unique_ptr");
        static_assert(alignof(object) <= function_alignment,
                      "a timeout's function object is aligned to at most 16 bytes: capture a "
                      "pointer to what it needs, or a std::unique_ptr");
        static_assert(std::is_nothrow_destructible_v<object>,
                      "a timeout's function object has a destructor that does not throw");
        ::new (static_cast<void*>(storage)) object(std::forward<F>(f));
        function = &function_kind_of<object>::value;
    }

    void drop_function() noexcept { function->destroy(storage); }
};

static_assert(sizeof(void*) != 8 || sizeof(timeout_node) == 128);

/// Whether `f` is a null pointer, or an object as empty as one.
template <class F> bool is_empty_function(const F& f) noexcept {
    if constexpr (std::is_pointer_v<F>)
        return f == nullptr;
    else if constexpr (std::is_constructible_v<F, std::nullptr_t> &&
                       std::is_constructible_v<bool, const F&>)
        return !static_cast<bool>(f);
    else
        return false;
}

}  // namespace tvec::detail
