// Supervises a coarse structure. It fires late, so the ticks on which it fired cannot be compared
// with those of others. A book of deadlines checks each fire instead, and notes it for its
// deadline. So the tally is that of an exact structure.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "test_bed.hpp"

namespace bench {

// The pending timers of a run: each fires at its deadline, or later by at most the declared error.
class deadline_book final : public tally::supervisor {
public:
    explicit deadline_book(std::size_t timers) : entries_(timers) {}

    void arm(std::uint64_t index, std::uint64_t deadline, std::uint64_t latest) {
        if (index < entries_.size()) entries_[index] = {deadline, latest};
    }

    // Ends the wait of a timer that has not fired by `now`. If its deadline has come, it would have
    // fired in an exact structure.
    void end(std::uint64_t index, std::uint64_t now) {
        if (index >= entries_.size()) return;
        const entry e = take(index);
        if (e.deadline > now) return;
        if (e.latest <= now) seen.fail("did not fire a timer in time");
        seen.count(index, e.deadline);
    }
    void end_all(std::uint64_t now) {
        for (std::uint64_t i = 0; i < entries_.size(); ++i) end(i, now);
    }

    std::uint64_t deadline_of_fire(std::uint64_t index, std::uint64_t now) override {
        const entry e = take(index);
        if (e.deadline > now) {
            seen.fail("fired a timer early, or one that was not pending");
            return now;
        }
        if (e.latest < now) seen.fail("fired a timer later than its declared error");
        seen.note_lateness(now - e.deadline);
        return e.deadline;
    }

private:
    struct entry {
        std::uint64_t deadline = ~std::uint64_t{0};  // not pending
        std::uint64_t latest = 0;
    };
    entry take(std::uint64_t index) { return std::exchange(entries_[index], entry()); }

    std::vector<entry> entries_;
};

template <coarse A> struct supervised : A {
    using node = typename A::node;

    supervised() { seen.supervise_by(&book_); }
    ~supervised() {
        book_.end_all(A::now());
        seen.supervise_by(nullptr);
    }
    supervised(const supervised&) = delete;
    supervised& operator=(const supervised&) = delete;

    void arm(node& n, std::uint64_t at) {
        const std::uint64_t now = A::now(), index = seen.index_of(n);
        book_.end(index, now);
        book_.arm(index, at, at + A::most_late(at - now));
        A::arm(n, at);
    }
    void cancel(node& n) {
        book_.end(seen.index_of(n), A::now());
        A::cancel(n);
    }

private:
    deadline_book book_{seen.size()};
};

}  // namespace bench
