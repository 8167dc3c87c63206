// Runs threads one at a time, and switches only between the operations of atomics, as a seed
// decides. So every order of those operations can be produced and repeated.
//
// Operations are not reordered as processors may: tests/models/orders does that.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

// A few functions in parallel, each on its own stack.
class fibers {
public:
    explicit fibers(std::mt19937_64& random) : random_(random) {}
    fibers(const fibers&) = delete;

    void add(std::function<void()> body) {
        all_.push_back(std::make_unique<fiber>(*this, std::move(body)));
    }

    // Runs them until all have ended. Returns false if they have not ended after this many steps. A
    // thread runs for one step, or for up to sixteen on average, so that others are left far
    // behind. In most runs one thread also stops once for long, between any two operations.
    bool run(std::uint64_t most_steps) {
        current() = this;
        const std::uint64_t patience = std::uint64_t{1} << random_() % 5;
        const std::uint64_t stops_at = random_() % 500, goes_on_at = stops_at + random_() % 1000;
        const fiber* stopped = nullptr;
        std::size_t i = 0;
        for (; !all_.empty() && steps_ < most_steps; ++steps_) {
            if (i >= all_.size() || random_() % patience == 0) i = random_() % all_.size();
            if (steps_ == stops_at) stopped = all_[i].get();
            if (steps_ < goes_on_at && all_[i].get() == stopped) i = (i + 1) % all_.size();
            running_ = all_[i].get();
            swapcontext(&scheduler_, &running_->context);
            const bool over = std::exchange(running_, nullptr)->over;
            if (over) all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        current() = nullptr;
        return all_.empty();
    }

    std::uint64_t steps() const { return steps_; }

    // The one that is running; null outside of all of them.
    static const void* self() { return current() ? current()->running_ : nullptr; }

    // Another thread may continue here.
    static void step() {
        if (current() && current()->running_) current()->pause();
    }
    // Returns true now and then, for spurious failures.
    static bool is_unlucky() {
        return current() && current()->running_ && current()->random_() % 8 == 0;
    }

private:
    struct fiber {
        fiber(fibers& f, std::function<void()> b) : home(f), body(std::move(b)) {
            getcontext(&context);
            context.uc_stack.ss_sp = stack.get();
            context.uc_stack.ss_size = stack_size;
            context.uc_link = &home.scheduler_;
            makecontext(&context, &fibers::begin, 0);
        }
        static constexpr std::size_t stack_size = 1 << 18;

        fibers& home;
        std::function<void()> body;
        std::unique_ptr<char[]> stack{new char[stack_size]};
        ucontext_t context{};
        bool over = false;
    };

    static fibers*& current() {
        static fibers* c = nullptr;
        return c;
    }
    static void begin() {
        fiber& self = *current()->running_;
        self.body();
        self.over = true;
    }
    void pause() {
        fiber& self = *running_;
        swapcontext(&self.context, &scheduler_);
    }

    std::mt19937_64& random_;
    ucontext_t scheduler_{};
    std::vector<std::unique_ptr<fiber>> all_;
    fiber* running_ = nullptr;
    std::uint64_t steps_ = 0;
};

// The part of std::atomic that the library uses. Weak exchanges do fail spuriously, and waiting
// threads sleep until notified. The id of a thread is that of the fiber: one that was stored reads
// as this thread's to the fiber that stored it, and as no thread's to the others.
template <class T> class stepped {
public:
    stepped(T value) : value_(value) {}
    stepped() : stepped(T{}) {}
    stepped(const stepped&) = delete;
    stepped& operator=(const stepped&) = delete;

    T load(std::memory_order) const {
        fibers::step();
        if constexpr (std::is_same_v<T, std::thread::id>)
            if (stored_by_ != fibers::self()) return T{};
        return value_;
    }
    void store(T value, std::memory_order) {
        fibers::step();
        stored_by_ = fibers::self();
        value_ = value;
    }
    T exchange(T value, std::memory_order) {
        fibers::step();
        return std::exchange(value_, value);
    }
    T fetch_and(T mask, std::memory_order) {
        fibers::step();
        return std::exchange(value_, value_ & mask);
    }
    T fetch_or(T mask, std::memory_order) {
        fibers::step();
        return std::exchange(value_, value_ | mask);
    }
    T fetch_add(T more, std::memory_order) {
        fibers::step();
        return std::exchange(value_, value_ + more);
    }
    bool compare_exchange_weak(T& expected, T wanted, std::memory_order a, std::memory_order b) {
        if (!fibers::is_unlucky()) return compare_exchange_strong(expected, wanted, a, b);
        expected = load(b);
        return false;
    }
    bool compare_exchange_strong(T& expected, T wanted, std::memory_order, std::memory_order) {
        fibers::step();
        const T found = value_;
        if (found == expected) {
            value_ = wanted;
            return true;
        }
        expected = found;
        return false;
    }
    void wait(T old, std::memory_order) const {
        fibers::step();
        if (value_ != old) return;
        for (const auto before = notified_; notified_ == before;) fibers::step();
    }
    void notify_all() {
        fibers::step();
        ++notified_;
    }

private:
    T value_;
    const void* stored_by_ = fibers::self();
    std::uint64_t notified_ = 0;
};

}  // namespace support
