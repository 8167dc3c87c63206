#include "tvec/core/detail/wheel_number.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <limits>

namespace tvec::detail {

namespace {

using native_word = std::uintptr_t;  // 64-bit atomics are not for all processors
using shared_word = std::atomic<native_word>;

constexpr native_word full = ~native_word{0};
constexpr unsigned word_bits = std::numeric_limits<native_word>::digits;

/// A bit for each number: set while a wheel has it.
constinit std::array<shared_word, (last_wheel_id + 1) / word_bits> ids_in_use{};

/// Returns the bits of a word whose numbers no wheel gets: `nobody`, or `unused` and `shared`.
constexpr native_word reserved_in(std::size_t index) noexcept {
    return (index == 0 ? 1 : 0) | (index == ids_in_use.size() - 1 ? ~(full >> 2) : 0);
}

/// Sets a bit, and returns the word as it was. In one operation if the processor has it. A
/// Cortex-M0 has not, and no library that would mask interrupts instead: one thread makes wheels.
native_word set(shared_word& bits, native_word bit) noexcept {
    if constexpr (shared_word::is_always_lock_free)
        return bits.fetch_or(bit, std::memory_order_acquire);
    const native_word before = bits.load(std::memory_order_relaxed);
    bits.store(before | bit, std::memory_order_relaxed);
    return before;
}

/// Clears a bit in the same way.
native_word clear(shared_word& bits, native_word bit) noexcept {
    if constexpr (shared_word::is_always_lock_free)
        return bits.fetch_and(~bit, std::memory_order_release);
    const native_word before = bits.load(std::memory_order_relaxed);
    bits.store(before & ~bit, std::memory_order_relaxed);
    return before;
}

std::uint16_t reserve() noexcept {
    for (std::size_t index = 0; index < ids_in_use.size(); ++index) {
        native_word bits = ids_in_use[index].load(std::memory_order_relaxed) | reserved_in(index);
        while (bits != full) {
            const auto free = static_cast<unsigned>(std::countr_one(bits));
            const native_word bit = native_word{1} << free;
            bits |= set(ids_in_use[index], bit);
            if ((bits & bit) == 0) return static_cast<std::uint16_t>(index * word_bits + free);
        }
    }
    return wheel_number::shared;
}

}  // namespace

wheel_number::wheel_number() noexcept : number_(reserve()) {
    assert(number_ != nobody && number_ != unused && "every wheel has a number");
}

wheel_number::~wheel_number() {
    if (number_ == shared) return;
    const native_word bit = native_word{1} << number_ % word_bits;
    [[maybe_unused]] const native_word bits = clear(ids_in_use[number_ / word_bits], bit);
    assert((bits & bit) != 0 && "a number that is given back was given out");
}

}  // namespace tvec::detail
