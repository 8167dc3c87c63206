#include "tvec/core/detail/wheel_number.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <cassert>

namespace tvec::detail {

namespace {

constexpr unsigned word_bits = sizeof(owner_number) == 1 ? 8 : 64;
/// The numbers of a key that are given out: all but `nobody`, `unused` and `shared`.
constexpr std::uint64_t usable = (std::uint64_t{1} << (word_bits - 2)) - 2;
constexpr unsigned most_keys_held = 64;  // C libraries have 128, or 1024

/// A word per key, a bit per number. The word is not 0 while this copy of the library holds the
/// key. No other copy gives out the numbers of that key meanwhile.
class numbers {
public:
    std::uint16_t reserve() noexcept {
        for (unsigned key = 0; key < taken_.size(); ++key)
            if (const std::uint16_t number = reserve_under(key); number != wheel_number::nobody)
                return number;
        return reserve_under_new_key();
    }

    void release(std::uint16_t number) noexcept {
        if (number == wheel_number::shared) return;
        const unsigned key = number / word_bits;
        const std::uint64_t bit = std::uint64_t{1} << number % word_bits;
        assert((bit & usable) != 0 && "a number that is given back was given out");
        assert((taken_[key].load(std::memory_order_relaxed) & bit) != 0 &&
               "a number is given back once");
        if (taken_[key].fetch_and(~bit, std::memory_order_acq_rel) == bit) give_back(key);
    }

private:
    /// Returns a number of `key`, or `nobody` if the key is not held or has no number left.
    std::uint16_t reserve_under(unsigned key) noexcept {
        std::uint64_t bits = taken_[key].load(std::memory_order_relaxed);
        while (bits != 0 && (~bits & usable) != 0) {
            const auto bit = static_cast<unsigned>(std::countr_zero(~bits & usable));
            if (taken_[key].compare_exchange_weak(bits, bits | std::uint64_t{1} << bit,
                                                  std::memory_order_acquire))
                return static_cast<std::uint16_t>(key * word_bits + bit);
        }
        return wheel_number::nobody;
    }

    std::uint16_t reserve_under_new_key() noexcept {
        pthread_key_t key{};
        if (keys_held_.fetch_add(1, std::memory_order_relaxed) < most_keys_held &&
            pthread_key_create(&key, nullptr) == 0) {
            if (key < taken_.size()) {
                assert(taken_[key].load(std::memory_order_relaxed) == 0 &&
                       "a key that is held is not given out again");
                taken_[key].store(usable & -usable, std::memory_order_release);
                return static_cast<std::uint16_t>(key * word_bits + std::countr_zero(usable));
            }
            pthread_key_delete(key);
        }
        keys_held_.fetch_sub(1, std::memory_order_relaxed);
        return wheel_number::shared;
    }

    void give_back(unsigned key) noexcept {
        assert(keys_held_.load(std::memory_order_relaxed) != 0 &&
               "a key that is given back is held");
        pthread_key_delete(static_cast<pthread_key_t>(key));
        keys_held_.fetch_sub(1, std::memory_order_relaxed);
    }

    std::array<std::atomic<std::uint64_t>, (most_owners + 1) / word_bits> taken_{};
    std::atomic<unsigned> keys_held_{0};
};

constinit numbers alive;

}  // namespace

wheel_number::wheel_number() noexcept : number_(alive.reserve()) {
    assert(number_ != nobody && number_ != unused && "every wheel has a number");
}

wheel_number::~wheel_number() { alive.release(number_); }

}  // namespace tvec::detail
