#include "tvec/core/detail/wheel_number.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cassert>

namespace tvec::detail {

namespace {

constexpr std::uint64_t full = ~std::uint64_t{0};

/// A bit for each number: set while a wheel has it.
constinit std::array<std::atomic<std::uint64_t>, (last_wheel_id + 1) / 64> ids_in_use{};

/// Returns the bits of a word whose numbers no wheel gets: `nobody`, or `unused` and `shared`.
constexpr std::uint64_t reserved_in(std::size_t word) noexcept {
    return (word == 0 ? 1 : 0) | (word == ids_in_use.size() - 1 ? ~(full >> 2) : 0);
}

std::uint16_t reserve() noexcept {
    for (std::size_t word = 0; word < ids_in_use.size(); ++word) {
        std::uint64_t bits = ids_in_use[word].load(std::memory_order_relaxed) | reserved_in(word);
        while (bits != full) {
            const auto free = static_cast<unsigned>(std::countr_one(bits));
            const std::uint64_t bit = std::uint64_t{1} << free;
            bits |= ids_in_use[word].fetch_or(bit, std::memory_order_acquire);
            if ((bits & bit) == 0) return static_cast<std::uint16_t>(word * 64 + free);
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
    const std::uint64_t bit = std::uint64_t{1} << number_ % 64;
    [[maybe_unused]] const std::uint64_t bits =
        ids_in_use[number_ / 64].fetch_and(~bit, std::memory_order_release);
    assert((bits & bit) != 0 && "a number that is given back was given out");
}

}  // namespace tvec::detail
