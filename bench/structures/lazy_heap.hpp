// A heap as it is written by hand: the deadline is in the object, and each object has one entry in
// the heap, with a deadline that is not later. Pushing back and cancelling are a store to the
// object. The entry is put right when it surfaces. An earlier deadline moves the entry up at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

class lazy_heap {
public:
    struct node {
        std::uint64_t deadline = idle;
        std::uint64_t key = 0;  // that of its entry
        std::size_t place = nowhere;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        n.deadline = at;
        if (n.place == nowhere)
            enter(n, at);
        else if (n.key > at)
            move_up(n, at);
    }
    [[gnu::always_inline]] void cancel(node& n) { n.deadline = idle; }

    void adopt(node&) {}
    void release(node& n) {
        n.deadline = idle;
        if (n.place != nowhere) remove(n);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (!heap_.empty() && heap_.front().key <= until) surface(*heap_.front().owner);
        now_ = until;
    }

    // A lower bound: the timer may have been pushed back or cancelled.
    [[gnu::always_inline]] std::uint64_t next_wakeup() const {
        return heap_.empty() ? idle : heap_.front().key;
    }

private:
    struct entry {
        std::uint64_t key;
        node* owner;
    };

    static constexpr std::uint64_t idle = ~std::uint64_t{0};
    static constexpr std::size_t nowhere = ~std::size_t{0};

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    [[gnu::noinline]] void enter(node& n, std::uint64_t at) {
        heap_.push_back({at, &n});
        rise(heap_.size() - 1, {at, &n});
    }
    [[gnu::noinline]] void move_up(node& n, std::uint64_t at) { rise(n.place, {at, &n}); }

    [[gnu::noinline]] void surface(node& n) {
        if (n.deadline != idle && n.deadline > n.key) {
            sink(0, {n.deadline, &n});
            return;
        }
        remove(n);
        if (n.deadline == idle) return;
        now_ = n.deadline;
        n.deadline = idle;
        n.fire(n, now_);
    }

    void put(std::size_t place, const entry& e) {
        heap_[place] = e;
        e.owner->key = e.key;
        e.owner->place = place;
    }

    // From `place` on, which is free.
    void rise(std::size_t place, const entry& e) {
        while (place > 0) {
            const std::size_t parent = (place - 1) / 2;
            if (heap_[parent].key <= e.key) break;
            put(place, heap_[parent]);
            place = parent;
        }
        put(place, e);
    }
    void sink(std::size_t place, const entry& e) {
        for (;;) {
            const std::size_t child = least_child(place);
            if (child >= heap_.size() || e.key <= heap_[child].key) break;
            put(place, heap_[child]);
            place = child;
        }
        put(place, e);
    }
    std::size_t least_child(std::size_t place) const {
        const std::size_t left = 2 * place + 1;
        const bool is_right = left + 1 < heap_.size() && heap_[left + 1].key < heap_[left].key;
        return is_right ? left + 1 : left;
    }

    void remove(node& n) {
        const std::size_t place = n.place;
        n.place = nowhere;
        const entry last = heap_.back();
        heap_.pop_back();
        if (place == heap_.size()) return;
        if (place > 0 && last.key < heap_[(place - 1) / 2].key)
            rise(place, last);
        else
            sink(place, last);
    }

    std::uint64_t now_ = start;
    std::vector<entry> heap_;
};

struct lazy_heap_adapter : lazy_heap {
    static constexpr const char* name = "lazy_heap";
    static constexpr description is{
        .what =
            "a binary heap, written by hand: an object has one entry, put right when it surfaces",
        .order = "unspecified",
        .allocation = "an array of entries",
        .cancel = "a store; the entry stays until it surfaces"};
};

}  // namespace bench
