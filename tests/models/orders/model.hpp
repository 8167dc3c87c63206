// One run of a program: the writes of each atomic in their modification order, and what each thread
// has been told of them. The parts of the explorer share it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "atomic.hpp"

namespace orders {

constexpr unsigned most_threads = 5, most_places = 40, most_writes = 2048, most_steps = 400;

struct write;

// What happened before: of each atomic the oldest write that may still be read, and of each thread
// the number of its steps.
struct view {
    std::array<write*, most_places> oldest;
    std::array<std::uint32_t, most_threads> steps;
};

struct write {
    word value;
    std::uint16_t thread, number;  // of this thread's steps
    std::uint16_t position;        // in the modification order
    bool is_exchange;              // it follows the write that it has read, with none between
    bool carries;                  // a view: it was released, or continues a release sequence
    at where;
    view carried;
};

struct place {
    bool is_over;
    unsigned count;
    std::array<write*, 128> order;
    write* notified;  // the last write that a notify_all knew
    std::array<std::uint32_t, most_threads> used;
};

enum class sleeps : std::uint8_t { no, until_not_zero, until_notified };

struct thread {
    const char* name = "main";
    std::function<void()>* body;
    bool has_begun, is_over;
    sleeps how;
    unsigned on;            // the atomic on which it sleeps
    const write* has_read;  // before it fell asleep
    std::uint16_t number;   // of its steps
    view now;
};

struct step {
    unsigned thread;
    act how;
    bool has_failed;  // a compare
    at where;
    const write *read, *newest, *written;
};

struct run_state {
    std::array<write, most_writes> writes;
    std::array<place, most_places> places;
    std::array<thread, most_threads> threads;  // the first is the set-up
    std::array<step, most_steps> steps;
    unsigned write_count, place_count, thread_count, step_count;
    unsigned running;  // the thread
    unsigned set_up_as;
    word graph;  // a hash of all steps, whatever order they were made in
    std::function<void()>* checks;
    bool in_program;  // not in the explorer itself
    bool has_failed;
    std::string why;
};
extern run_state run;

struct weaker {
    std::string file;
    int line;
    act how;
    bool on_failure;
    std::memory_order order;
};

struct settings {
    int preemptions = -1;     // of threads that could go on; -1: any
    bool sequential = false;  // each load reads the newest write
    std::vector<weaker> weakened;
};
extern settings chosen;

struct outcome {
    bool fails = false;
    std::string why, story;
    unsigned steps = 0;
    std::uint64_t states = 0;
};
outcome explore(program set_up, const settings& s);

// The explorer's own code runs, as long as it exists.
struct in_explorer {
    in_explorer() : before(run.in_program) { run.in_program = false; }
    ~in_explorer() { run.in_program = before; }
    in_explorer(const in_explorer&) = delete;
    const bool before;
};

inline word mix(word a, word b) {
    a ^= b + 0x9e3779b97f4a7c15 + (a << 12) + (a >> 4);
    a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9;
    a = (a ^ (a >> 27)) * 0x94d049bb133111eb;
    return a ^ (a >> 31);
}

unsigned choose(unsigned n);  // one of n: each of them in one run or another
void let_others_run();
std::string tell();   // the story of the run
void reset_memory();  // plain.cpp: that of the program
std::string name_of(std::size_t offset);

}  // namespace orders
