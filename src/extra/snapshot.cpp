#include "tvec/extra/snapshot.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/inspect/detail/fault.hpp"

namespace tvec {

namespace geometry = detail::geometry;

namespace {

/// The first word: says by which rules timers have places. To be changed with these rules.
constexpr std::uint64_t format = [] {
    std::uint64_t known = 0x7476'6563'0003;  // "tvec", and a number to count up
    for (const std::uint64_t n :
         {std::uint64_t{geometry::root_bits}, std::uint64_t{geometry::level_bits},
          std::uint64_t{geometry::levels}, std::uint64_t{geometry::level_1_laps},
          std::uint64_t{geometry::chunk}, std::uint64_t{geometry::chains_per_slot},
          std::uint64_t{sizeof(detail::link_count)}})
        known = known * 257 + n;
    return known;
}();

/// Returns a sum of numbers, which tells damaged ones.
std::uint64_t sum_of(std::span<const std::uint64_t> numbers) noexcept {
    std::uint64_t sum = numbers.size();
    for (const std::uint64_t n : numbers) sum = std::rotl((sum ^ n) * 0x9e37'79b9'7f4a'7c15, 29);
    return sum;
}

[[noreturn]] void refuse_to_capture() {
    constexpr const char* why = "a wheel is captured by its own callback, or by a visitor of its "
                                "timers: set a flag there, and capture it afterwards";
#ifdef __cpp_exceptions
    throw std::logic_error(std::string("tvec: ") + why);
#else
    detail::broken_promise(why);
#endif
}

}  // namespace

snapshot::snapshot() {
    hold(0, 0, never, detail::agenda());
    words_.push_back(std::uint64_t{geometry::never_slot} << 32);  // the slot that has no bit
    ++words_[slots_at];
}

/// Writes everything but the timers and their slots.
void snapshot::hold(jiffies now, jiffies target, jiffies sorted, const detail::agenda& agenda) {
    words_.assign({format, now, target, sorted});
    words_.resize(slots_at + 1);
    std::memcpy(&words_[agenda_at], &agenda, sizeof agenda);
}

/// Writes everything but the timers.
void snapshot::begin(const timer_wheel& wheel) {
    if (wheel.busy_ != timer_wheel::activity::none) refuse_to_capture();
    hold(wheel.now_, wheel.target_, wheel.sorted_, wheel.agenda_);
    const detail::levels& all = wheel.levels_;
    all.any_marked([&](unsigned s) {
        words_.push_back(std::uint64_t{s} << 32 | all.at_most(s));
        ++words_[slots_at];
        return false;
    });
}

/// Empties the wheel, and puts everything but the timers into it.
void snapshot::begin(timer_wheel& wheel) const noexcept {
    if (wheel.busy_ != timer_wheel::activity::none)
        detail::broken_promise("a snapshot is restored by a callback of the wheel, or by a "
                               "visitor of its timers: restore it afterwards");
    assert(wheel.thread_.admits_caller() &&
           "restored by another thread than the one that advances it");
    detail::levels& all = wheel.levels_;
    all.pop_all([](detail::link&) {});
    wheel.now_ = words_[now_at];
    wheel.target_ = words_[target_at];
    wheel.sorted_ = words_[sorted_at];
    std::memcpy(static_cast<void*>(&wheel.agenda_), &words_[agenda_at], sizeof wheel.agenda_);
    for (std::size_t i = slots_at + 1; i < entries_at(); ++i) {
        const auto s = static_cast<unsigned>(words_[i] >> 32);
        all.counts_[s] = static_cast<detail::link_count>(words_[i]);
        if (s != geometry::never_slot) all.set_occupied(s);
    }
}

std::vector<std::uint64_t> snapshot::save() const {
    std::vector<std::uint64_t> numbers = words_;
    numbers.push_back(sum_of(words_));
    return numbers;
}

bool snapshot::load(std::span<const std::uint64_t> saved) {
    if (saved.size() <= slots_at || saved[0] != format) return false;
    const auto words = saved.first(saved.size() - 1);
    if (sum_of(words) != saved.back()) return false;
    snapshot read;
    read.words_.assign(words.begin(), words.end());
    if (!read.is_in_range() || !read.is_consistent()) return false;
    words_.swap(read.words_);
    return true;
}

/// Returns whether a restore writes to slots and chains of a wheel alone, and counts of slots bound
/// their chains.
bool snapshot::is_in_range() const {
    const std::uint64_t slots = words_[slots_at], rest = words_.size() - slots_at - 1;
    if (slots > rest || (rest - slots) % words_of_entry != 0) return false;
    for (const std::size_t tick : {now_at, target_at})
        if (words_[tick] >= never) return false;
    std::vector<std::uint64_t> lengths(std::size_t{geometry::total_slots} * width);
    for (std::size_t i = entries_at(); i < words_.size(); i += words_of_entry) {
        if (words_[i + 2] >= lengths.size()) return false;
        const std::uint64_t slot = words_[i + 2] / width;
        const bool cascades = slot >= geometry::ring_of(geometry::root) && slot < geometry::beyond;
        if (cascades && words_[i + 1] < words_[now_at]) return false;  // no slot leaves it so
        ++lengths[static_cast<std::size_t>(words_[i + 2])];
    }
    std::uint64_t next = 0, found = 0;  // slots come in order
    for (std::size_t i = slots_at + 1; i < entries_at(); ++i) {
        const std::uint64_t s = words_[i] >> 32, count = words_[i] & 0xffff'ffff;
        if (s < next || s > geometry::never_slot || s == geometry::beyond ||
            count > std::numeric_limits<detail::link_count>::max())
            return false;
        next = s + 1;
        for (unsigned k = 0; k < width; ++k) {
            const std::uint64_t length = lengths[static_cast<std::size_t>(s) * width + k];
            if (length > (count + width - 1 - k) / width) return false;
            found += length;
        }
    }
    return found == size();
}

/// Returns whether a wheel that is restored keeps the rules that `check` knows. Requires that all
/// is in range.
bool snapshot::is_consistent() const {
    detail::agenda ticks;
    std::memcpy(static_cast<void*>(&ticks), &words_[agenda_at], sizeof ticks);
    if (!ticks.is_possible()) return false;
    const auto timers = std::make_unique<timer[]>(size());
    const auto wheel = std::make_unique<timer_wheel>();
    timer* next = timers.get();
    restore(*wheel, [&next](std::uint64_t) { return next++; });
    return detail::first_fault(*wheel).empty();
}

}  // namespace tvec
