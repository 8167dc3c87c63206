#include "tvec/detail/core/wheel_number.hpp"

#include <array>
#include <atomic>
#include <bit>

namespace tvec::detail {

namespace {

constexpr unsigned word_bits = 64;

/// One bit per number. `nobody`, `unused` and `shared` are never given out.
class numbers {
public:
    std::uint16_t claim() noexcept {
        for (unsigned w = 0;; ++w) {  // ends in the last word, which is never full
            std::uint64_t bits = taken_[w].load(std::memory_order_relaxed);
            while (~bits != 0) {
                const auto bit = static_cast<unsigned>(std::countr_one(bits));
                const unsigned number = w * word_bits + bit;
                if (number >= wheel_number::unused) return wheel_number::shared;
                if (taken_[w].compare_exchange_weak(bits, bits | std::uint64_t{1} << bit,
                                                    std::memory_order_acquire))
                    return static_cast<std::uint16_t>(number);
            }
        }
    }

    void release(std::uint16_t number) noexcept {
        if (number == wheel_number::shared) return;
        taken_[number / word_bits].fetch_and(~(std::uint64_t{1} << number % word_bits),
                                             std::memory_order_release);
    }

private:
    std::array<std::atomic<std::uint64_t>, 65536 / word_bits> taken_{1};  // 0 is nobody's
};

constinit numbers alive;

}  // namespace

wheel_number::wheel_number() noexcept : number_(alive.claim()) {}

wheel_number::~wheel_number() { alive.release(number_); }

}  // namespace tvec::detail
