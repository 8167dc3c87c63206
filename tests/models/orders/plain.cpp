// The memory of programs, and their plain accesses: g++ and clang call these functions before each
// of them (-fsanitize=thread). Two that are not ordered, one of them a write, are a race.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "model.hpp"

namespace orders {

namespace {

constexpr std::size_t memory_size = 1 << 18, grain = 4;
alignas(64) std::byte memory[memory_size];
std::size_t used;

// Who has accessed four bytes of it, and at which of its steps.
struct accesses {
    std::uint64_t run;
    bool is_freed;
    unsigned writer;
    std::uint32_t written;
    std::array<std::uint32_t, most_threads> read;
};
std::array<accesses, memory_size / grain> seen;
std::uint64_t number_of_run;

struct named {
    std::size_t from, to;
    const char* name;
};
std::array<named, 16> names;
std::size_t name_count;

[[noreturn]] void tell_of_race(const char* mine, const char* theirs, unsigned other,
                               std::size_t offset) {
    run.in_program = false;
    static std::string why;
    why = std::string("a race on ") + name_of(offset) + ": " + run.threads[run.running].name +
          mine + run.threads[other].name + theirs + ", and has acquired nothing since";
    fail(why.c_str());
}

void access(accesses& a, bool writes, std::size_t offset) {
    if (a.run != number_of_run) a = {number_of_run, false, 0, 0, {}};
    if (a.is_freed) fail("an object is used after it was freed");
    const view& now = run.threads[run.running].now;
    if (a.written > now.steps[a.writer])
        tell_of_race(writes ? " writes what " : " reads what ", " has written", a.writer, offset);
    for (unsigned i = 1; i <= run.thread_count && writes; ++i)
        if (a.read[i] > now.steps[i]) tell_of_race(" writes what ", " has read", i, offset);
    (writes ? a.written : a.read[run.running]) = now.steps[run.running];
    if (writes) a.writer = run.running;
}

void access(const void* p, std::size_t size, bool writes) {
    if (!run.in_program || run.running == 0) return;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(p) - memory);
    if (offset >= memory_size || size == 0) return;
    for (std::size_t g = offset / grain; g <= (offset + size - 1) / grain; ++g)
        access(seen[g], writes, offset);
}

void* allocate(std::size_t size, std::size_t alignment) {
    if (!run.in_program) return std::aligned_alloc(64, (size + 63) / 64 * 64);
    used = (used + alignment - 1) / alignment * alignment;
    if (used + size > memory_size) std::abort();
    return memory + std::exchange(used, used + size);
}

// Memory is not used again in the same run.
void free(void* p) {
    if (p < memory || p >= memory + memory_size) return std::free(p);
    access(p, 1, true);
    if (run.in_program && run.running != 0)
        seen[static_cast<std::size_t>(static_cast<std::byte*>(p) - memory) / grain].is_freed = true;
}

}  // namespace

void reset_memory() {
    used = name_count = 0;
    ++number_of_run;
}

void call_it(const void* object, std::size_t size, const char* name) {
    const auto from = static_cast<std::size_t>(static_cast<const std::byte*>(object) - memory);
    names[name_count++] = {from, from + size, name};
}

std::string name_of(std::size_t offset) {
    for (std::size_t i = 0; i < name_count; ++i)
        if (offset >= names[i].from && offset < names[i].to) return names[i].name;
    return "a plain object";
}

}  // namespace orders

// The others call these.
using std::align_val_t, std::size_t;
void* operator new(size_t n) { return orders::allocate(n, 16); }
void* operator new(size_t n, align_val_t a) { return orders::allocate(n, size_t(a)); }
void operator delete(void* p) noexcept { orders::free(p); }
void operator delete(void* p, size_t) noexcept { orders::free(p); }
void operator delete(void* p, align_val_t) noexcept { orders::free(p); }
void operator delete(void* p, size_t, align_val_t) noexcept { orders::free(p); }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define ORDERS_HOOKS(size)                                                                         \
    void __tsan_read##size(void* p) { orders::access(p, size, false); }                            \
    void __tsan_write##size(void* p) { orders::access(p, size, true); }                            \
    void __tsan_unaligned_read##size(void* p) { orders::access(p, size, false); }                  \
    void __tsan_unaligned_write##size(void* p) { orders::access(p, size, true); }
ORDERS_HOOKS(1)
ORDERS_HOOKS(2)
ORDERS_HOOKS(4)
ORDERS_HOOKS(8)
ORDERS_HOOKS(16)
void __tsan_read_range(void* p, size_t n) { orders::access(p, n, false); }
void __tsan_write_range(void* p, size_t n) { orders::access(p, n, true); }
void __tsan_vptr_update(void** p, void*) { orders::access(p, sizeof *p, true); }
void __tsan_vptr_read(void** p) { orders::access(p, sizeof *p, false); }
void* __tsan_memset(void* p, int c, size_t n) {
    orders::access(p, n, true);
    return std::memset(p, c, n);
}
void* __tsan_memmove(void* to, const void* from, size_t n) {
    orders::access(to, n, true);
    orders::access(from, n, false);
    return std::memmove(to, from, n);
}
void* __tsan_memcpy(void* to, const void* from, size_t n) { return __tsan_memmove(to, from, n); }
}
