// The test bed of every workload: a structure, its objects, and the plan.
//
// A structure is described by an adapter, in structures/. It has
//   name             what it is called in the tables
//   is               its description there
//   node             what it needs in each object
//   now()            the last tick that was run
//   arm(node&, at)   pending or not
//   cancel(node&)    pending or not
//   advance(until)   runs all that is due by then; nobody advances past a tick that is due
// and, where the structure can do it,
//   next_wakeup()    the tick until which its loop may sleep
//   adopt(node&), release(node&)   make a node ready before it is armed, and give it up afterwards;
//                                  measured only where timers are made and destroyed
//   discard(Owner*)  release the node that an object begins with, and delete the object when the
//                    structure has done with it
//   most_late(delay) there, if it is coarse: the most ticks by which it is late; never early
//   expected_seconds(timers, effort)   roughly, where it does more work the more timers there are
// Firing says so: seen.note(node, now).
//
// arm, cancel, advance and next_wakeup are inlined with all that they usually need, and what they
// rarely need is in functions that are not. Left to the compiler, a push-back of two instructions
// is a call that saves six registers for a rare path, in one structure and not in the next.
// tests/programs/bench_inlined finds what was not inlined, operations of workloads included.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <vector>

#include "../report/event_counters.hpp"
#include "../report/tsc.hpp"
#include "objects.hpp"
#include "plan.hpp"

// [[gnu::always_inline]] for a lambda: C++20 has no place for attributes of its call operator.
#define BENCH_INLINED __attribute__((always_inline))

namespace bench {

constexpr std::uint64_t start = 12'345;

// The words of the tables about a structure.
struct description {
    const char* what;
    const char* order;  // in which the timers of one tick fire
    const char* allocation;
    const char* cancel;
};

// The work that a workload makes, apart from its operations.
struct effort {
    double calls;  // of advance
    double ticks;
    bool few_delays;  // a handful of different delays, or one
};

// A hash of timer and tick. Two runs have the same sum only if they had the same fires.
constexpr std::uint64_t mark_of_fire(std::uint64_t timer, std::uint64_t tick) {
    return (2 * timer + 1) * 0x9e3779b97f4a7c15 * tick;
}

// The fires that a run has seen: object and tick. All structures must see the same.
class tally {
public:
    // Tells the deadline of a timer that a coarse structure has fired.
    class supervisor {
    public:
        virtual std::uint64_t deadline_of_fire(std::uint64_t index, std::uint64_t now) = 0;

    protected:
        ~supervisor() = default;
    };
    // The work of a program in its callbacks.
    class follower {
    public:
        virtual void fired(std::uint64_t index) = 0;

    protected:
        ~follower() = default;
    };

    // Until when the structure is to run: whatever tick it tells, it fires nothing beyond.
    void run_until(std::uint64_t tick) { until_ = tick; }

    template <class Node> void note(const Node& n, std::uint64_t now) {
        const std::uint64_t index = index_of(n);
        if (now > until_) [[unlikely]]
            fail("has fired a timer early: it tells a tick beyond that of advance()");
        if (is_watched_) [[unlikely]]
            note_watched(index, now);
        else
            add(index, now - start);
    }
    void count(std::uint64_t index, std::uint64_t deadline) {
        add(index, (deadline - start + frame_ - 1) / frame_);
    }

    void restart(const void* first, std::size_t size) {
        *this = tally();
        first_ = first;
        size_ = size;
    }
    void supervise_by(supervisor* s) {
        supervisor_ = s;
        is_watched_ = supervisor_ != nullptr || follower_ != nullptr;
    }
    // In a program that calls once a frame, structures agree on the frame, and not on the tick. The
    // frame stays after the follower, until the next restart.
    void follow(follower* f, std::uint64_t frame) {
        follower_ = f;
        frame_ = frame;
        is_watched_ = true;
    }
    void note_lateness(std::uint64_t ticks) { lateness_ = std::max(lateness_, ticks); }
    void fail(const char* why) { fault_ = why; }

    // At least `size` for a node that is none of the objects.
    template <class Node> std::uint64_t index_of(const Node& n) const {
        const std::uint64_t bytes =
            reinterpret_cast<std::uintptr_t>(&n) - reinterpret_cast<std::uintptr_t>(first_);
        return bytes / sizeof(object<Node>);
    }
    std::size_t size() const { return size_; }

    std::uint64_t fired() const { return fired_; }
    std::uint64_t checksum() const { return checksum_; }
    std::uint64_t lateness() const { return lateness_; }  // the greatest
    const char* fault() const { return fault_; }          // null: none
    friend bool operator==(const tally& a, const tally& b) {
        return a.fired_ == b.fired_ && a.checksum_ == b.checksum_;
    }

private:
    void add(std::uint64_t index, std::uint64_t when) {
        ++fired_;
        checksum_ += mark_of_fire(index, when);
    }
    void note_watched(std::uint64_t index, std::uint64_t now) {
        count(index, supervisor_ != nullptr ? supervisor_->deadline_of_fire(index, now) : now);
        if (follower_ != nullptr) follower_->fired(index);
    }

    const void* first_ = nullptr;
    std::size_t size_ = 0;
    std::uint64_t fired_ = 0;
    std::uint64_t checksum_ = 0;
    bool is_watched_ = false;
    supervisor* supervisor_ = nullptr;
    follower* follower_ = nullptr;
    std::uint64_t frame_ = 1;
    std::uint64_t lateness_ = 0;
    std::uint64_t until_ = ~std::uint64_t{0};
    const char* fault_ = nullptr;
};

inline tally seen;

template <class A>
concept structure = requires(A a, typename A::node n, std::uint64_t tick) {
    { A::name } -> std::convertible_to<const char*>;
    { A::is } -> std::convertible_to<description>;
    { a.now() } -> std::same_as<std::uint64_t>;
    a.arm(n, tick);
    a.cancel(n);
    a.advance(tick);
};

template <class A>
concept tells_wakeup = requires(A a) {
    { a.next_wakeup() } -> std::same_as<std::uint64_t>;
};

template <class A>
concept adopts = requires(A a, typename A::node n) {
    a.adopt(n);
    a.release(n);
};

template <class A>
concept discards = requires(A a, typename A::node* n) {
    a.discard(n);
};

template <class A>
concept coarse = requires(std::uint64_t delay) {
    { A::most_late(delay) } -> std::same_as<std::uint64_t>;
};

template <class A>
concept expects = requires(const effort& e) {
    { A::expected_seconds(1.0, e) } -> std::same_as<double>;
};

using durations = std::vector<float>;  // nanoseconds

template <class F> float time_one(F work) {
    const stopwatch watch;
    work();
    return static_cast<float>(watch.nanoseconds());
}

// A figure, the events of its batch if they are counted, and its single operations if they are
// measured: then the figure means nothing.
struct measured {
    double value = std::numeric_limits<double>::quiet_NaN();
    event_counts counts = nothing_counted;
    durations singly{};
};

// Measures a batch of operations.
class batch {
public:
    // Ends the batch: nanoseconds and events for each of its operations.
    measured each_of(double operations) const {
        measured m{watch_.nanoseconds() / operations};
        if (counting != nullptr) m.counts = counting->pause();
        for (double& count : m.counts) count /= operations;
        return m;
    }

private:
    static long_stopwatch begin() {
        if (counting != nullptr) counting->run();
        return {};
    }
    long_stopwatch watch_ = begin();
};

// Everything that a run needs besides a structure.
struct stage {
    const plan& what;
    const ground& where;
    bool play_out;  // afterwards, run on until all that is armed has fired: a check, not measured
    bool singly = false;        // measure each operation, and not the batch
    std::uint64_t drawing = 0;  // a number for workloads that are drawn anew each time
};

inline double allocated_bytes() {
    const struct mallinfo2 m = mallinfo2();
    return static_cast<double>(m.uordblks) + static_cast<double>(m.hblkhd);
}

// A structure whose calls of advance the tally knows.
template <structure A> struct observed : A {
    [[gnu::always_inline]] void advance(std::uint64_t until) {
        seen.run_until(until);
        A::advance(until);
    }
};

template <structure A> class field {
public:
    using node = typename A::node;

    explicit field(const stage& s)
        : plan_(s.what), singly_(s.singly), drawing_(s.drawing), herd_(s.where, plan_.size()) {
        seen.restart(herd_.first(), herd_.size());
        structure_ = std::make_unique<observed<A>>();
        adopt_all();
    }
    ~field() {
        if constexpr (adopts<A>)
            for (std::size_t i = 0; i < size(); ++i) structure_->release(herd_[i]);
    }
    field(const field&) = delete;
    field& operator=(const field&) = delete;

    std::size_t size() const { return plan_.size(); }
    const plan& what() const { return plan_; }
    observed<A>& wheel() { return *structure_; }
    node& at(std::size_t index) { return herd_[index]; }

    std::uint64_t drawing() const { return drawing_; }

    // act(structure, node, i) for each object, then between(structure), which is no operation. The
    // loop keeps all but the object in registers.
    template <class F, class G>
    [[gnu::always_inline]] void each(const std::vector<std::uint32_t>& order, F act, G between) {
        observed<A>& w = *structure_;
        auto* const objects = herd_.first();
        std::size_t i = 0;
        if (singly_) {
            for (const std::uint32_t k : order) {
                singles_.push_back(time_one([&] { act(w, objects[k].node, i++); }));
                between(w);
            }
            return;
        }
        for (const std::uint32_t k : order) {
            act(w, objects[k].node, i++);
            between(w);
        }
    }
    template <class F>
    [[gnu::always_inline]] void each(const std::vector<std::uint32_t>& order, F act) {
        each(order, act, [](observed<A>&) BENCH_INLINED {});
    }

    void arm_all() {
        const std::uint64_t now = wheel().now();
        const std::uint32_t* const delays = plan_.delays.data();
        each(plan_.order,
             [=](A& w, node& n, std::size_t i) BENCH_INLINED { w.arm(n, now + delays[i]); });
    }
    void rearm_all() {
        const std::uint64_t now = wheel().now();
        const std::uint32_t* const delays = plan_.delays.data();
        each(plan_.other_order,
             [=](A& w, node& n, std::size_t i) BENCH_INLINED { w.arm(n, now + delays[i]); });
    }
    void arm_all_for(std::uint64_t tick) {
        each(plan_.other_order,
             [tick](A& w, node& n, std::size_t) BENCH_INLINED { w.arm(n, tick); });
    }
    void arm_all_in_memory_order() {
        A& w = *structure_;
        auto* const objects = herd_.first();
        const std::uint64_t now = w.now();
        const std::vector<std::uint32_t>& delays = plan_.delays;
        for (std::size_t i = 0; i < delays.size(); ++i) w.arm(objects[i].node, now + delays[i]);
    }
    void cancel_all() {
        each(plan_.other_order, [](A& w, node& n, std::size_t) BENCH_INLINED { w.cancel(n); });
    }

    // Nothing may be done with them until make_all.
    void destroy_all() {
        each(plan_.other_order, [](A& w, node& n, std::size_t) BENCH_INLINED {
            w.cancel(n);
            if constexpr (adopts<A>) w.release(n);
            std::destroy_at(&n);
        });
    }
    void make_all() {
        for (std::size_t i = 0; i < size(); ++i) std::construct_at(&herd_[i]);
        adopt_all();
    }

    // By the structure and for the timers in it, since there is this field.
    double allocated() const { return allocated_bytes() - allocated_before_; }

    [[gnu::always_inline]] void tick() { wheel().advance(wheel().now() + 1); }

    // Measures `work`, per object.
    template <class F> measured time(F work) {
        singles_.clear();
        if (singly_) singles_.reserve(size());
        const batch all;
        work();
        measured m = all.each_of(static_cast<double>(size()));
        m.singly.swap(singles_);
        return m;
    }

    // Every tick that a workload arms near, and the one that it arms far away.
    void play_out() {
        while (wheel().now() < start + 2 * plan::longest) tick();
        if (wheel().now() < far_away) wheel().advance(far_away);
    }
    static constexpr std::uint64_t far_away = start + 10'000'000;

private:
    void adopt_all() {
        if constexpr (adopts<A>)
            for (std::size_t i = 0; i < size(); ++i) structure_->adopt(herd_[i]);
    }

    const double allocated_before_ = allocated_bytes();
    const plan& plan_;
    const bool singly_;
    const std::uint64_t drawing_;
    durations singles_;
    herd<node> herd_;
    std::unique_ptr<observed<A>> structure_;  // ends before the objects do
};

}  // namespace bench
