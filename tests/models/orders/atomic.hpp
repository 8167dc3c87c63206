// The std::atomic of programs that the explorer runs, and what such a program may say. The programs
// and the library are compiled with -fsanitize=thread, so that the explorer sees their plain
// accesses too (plain.cpp).
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <thread>
#include <type_traits>
#include <vector>

#define ORDERS_UNSEEN __attribute__((no_sanitize("thread")))  // not a part of the program

namespace orders {

using word = std::uint64_t;

struct at {
    const char* file;
    int line;

    static constexpr at here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

// The operations, as they are named in options: `l` is a load.
enum class act : char {
    load = 'l',
    store = 's',
    exchange = 'x',
    fetch_and = 'a',
    fetch_or = 'o',
    fetch_add = 'p',
    compare = 'c',
    wait = 'w',
    notify = 'n',
    take = 't',  // waits for another value than 0, and exchanges it for 0
};

unsigned make(word value);
void end(unsigned place);
word load(unsigned place, std::memory_order order, at where);
void store(unsigned place, word value, std::memory_order order, at where);
word modify(unsigned place, act how, word with, std::memory_order order, at where);
bool compare(unsigned place, word& expected, word wanted, std::memory_order success,
             std::memory_order failure, at where);
void wait(unsigned place, word old, std::memory_order order, at where);
void notify_all(unsigned place, at where);

// The number of the thread that runs: 0 in the set-up.
word self();

template <class T> class atomic {
public:
    ORDERS_UNSEEN atomic(T value) : place_(make(pack(value))) {}
    ORDERS_UNSEEN atomic() : atomic(T{}) {}
    ORDERS_UNSEEN ~atomic() { end(place_); }
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;

    ORDERS_UNSEEN T load(std::memory_order o, at w = at::here()) const {
        return unpack(orders::load(place_, o, w));
    }
    ORDERS_UNSEEN void store(T v, std::memory_order o, at w = at::here()) {
        orders::store(place_, pack(v), o, w);
    }
#define ORDERS_MODIFIES(name)                                                                      \
    ORDERS_UNSEEN T name(T v, std::memory_order o, at w = at::here()) {                            \
        return unpack(modify(place_, act::name, pack(v), o, w));                                   \
    }
    ORDERS_MODIFIES(exchange)
    ORDERS_MODIFIES(fetch_and)
    ORDERS_MODIFIES(fetch_or)
    ORDERS_MODIFIES(fetch_add)
    ORDERS_UNSEEN bool compare_exchange_strong(T& e, T v, std::memory_order success,
                                               std::memory_order failure, at w = at::here()) {
        word expected = pack(e);
        const bool done = compare(place_, expected, pack(v), success, failure, w);
        if (!done) e = unpack(expected);
        return done;
    }
    ORDERS_UNSEEN bool compare_exchange_weak(T& e, T v, std::memory_order success,
                                             std::memory_order failure, at w = at::here()) {
        return compare_exchange_strong(e, v, success, failure, w);
    }
    ORDERS_UNSEEN void wait(T old, std::memory_order o, at w = at::here()) const {
        orders::wait(place_, pack(old), o, w);
    }
    ORDERS_UNSEEN void notify_all(at w = at::here()) { orders::notify_all(place_, w); }
    // Sleeps until the value is not 0, and makes it 0.
    ORDERS_UNSEEN void take(std::memory_order o, at w = at::here()) {
        modify(place_, act::take, 0, o, w);
    }

private:
    // The id of a thread is its number: read by another thread it is nobody's.
    ORDERS_UNSEEN static word pack(T v) {
        if constexpr (std::is_same_v<T, std::thread::id>)
            return v == T{} ? 0 : self() + 1;
        else if constexpr (std::is_pointer_v<T>)
            return reinterpret_cast<std::uintptr_t>(v);
        else
            return static_cast<word>(v);
    }
    ORDERS_UNSEEN static T unpack(word w) {
        if constexpr (std::is_same_v<T, std::thread::id>)
            return w == self() + 1 ? std::this_thread::get_id() : T{};
        else if constexpr (std::is_pointer_v<T>)
            return reinterpret_cast<T>(static_cast<std::uintptr_t>(w));
        else
            return static_cast<T>(w);
    }

    unsigned place_;
};

// --- verdicts -----------------------------------------------------------------------------------

// A program: its set-up makes objects and threads. It is called before each run.
using program = void (*)();

void add_thread(const char* name, std::function<void()> body);
void in_the_end(std::function<void()> checks);
// The set-up goes on as that thread, which makes what it makes.
void set_up_as(unsigned thread);
void call_it(const void* object, std::size_t size, const char* name);  // in stories
[[noreturn]] void fail(const char* what);
inline void expect(bool holds, const char* what) {
    if (!holds) fail(what);
}

// A doorbell. If it carries nothing, who is woken knows nothing of who has rung.
class bell {
public:
    static inline bool carries = false;
    ORDERS_UNSEEN void ring(at w = at::here()) { rings_.fetch_or(1, order(), w); }
    ORDERS_UNSEEN void sleep(at w = at::here()) { rings_.take(order(), w); }

private:
    ORDERS_UNSEEN static std::memory_order order() {
        return carries ? std::memory_order_acq_rel : std::memory_order_relaxed;
    }
    atomic<word> rings_{0};
};

struct named_program {
    const char* name;  // says what holds in all runs
    program set_up;
    int preemptions = -1;  // so many are searched; -1: all
    bool is_seen = false;  // it must fail instead, in some run
    bool bell_carries = false;
};
std::vector<named_program> litmus_tests(), mailbox_programs(), other_programs();

}  // namespace orders
