// A pool in its steady state allocates nothing. Without memory it refuses, and stays valid. In this
// program operator new counts allocations, and fails when told to.
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

#include "support/check.hpp"
#include "support/pooled.hpp"

using namespace std::chrono_literals;
using support::pooled;
using tvec::schedule_error, tvec::timeout_call, tvec::timeout_handle, tvec::timeout_state;

namespace {

constexpr int plenty = std::numeric_limits<int>::max();
int allocations = 0;
int left = plenty;  // allocations that still succeed

bool granted() {
    ++allocations;
    return left == plenty || left-- > 0;
}

void* allocate(std::size_t size, std::size_t alignment) {
    const std::size_t whole = (size + alignment - 1) / alignment * alignment;
    return granted() ? std::aligned_alloc(alignment, whole) : nullptr;
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
    if (void* const p = allocate(size, alignment)) return p;
    throw std::bad_alloc();
}

// From here to the end of the scope, `n` allocations succeed.
struct memory_for {
    explicit memory_for(int n) { left = n; }
    ~memory_for() { left = plenty; }
};

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size, 16); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, 16); }
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 16); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return allocate(size, 16);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return allocate(size, static_cast<std::size_t>(alignment));
}
// Not inlined: otherwise g++ pairs free() with operator new and warns of a mismatch.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

TestSuite(pool_allocation, .timeout = 60);

Test(pool_allocation, the_test_notices_an_allocation) {
    const int before = allocations;
    ::operator delete(::operator new(4));
    CHECK_EQ(allocations, before + 1);
    pooled on;
    on.pool.schedule(1ms, [] {});
    CHECK_EQ(allocations, before + 3);  // a slab, and the directory of slabs
}

Test(pool_allocation, empty_and_reserved_pools_allocate_nothing) {
    const int before = allocations;
    pooled idle;
    CHECK_EQ(allocations, before);
    pooled on;
    on.pool.reserve(1'000);
    const memory_for nothing(0);
    for (int i = 0; i < 1'000; ++i) REQUIRE(on.pool.schedule(1ms, [] {}));
    CHECK_EQ(on.pass(1ms), 1'000);
}

Test(pool_allocation, functions_rescheduling_in_reserved_pools_allocate_nothing) {
    for (const std::size_t most : {1u, 64u, 100u, 128u}) {
        pooled on(most);
        CHECK(on.pool.reserve(most));
        std::size_t refused = 0;
        const std::function<void()> again = [&] {
            refused += !on.pool.schedule(1ms, std::ref(again));
        };
        const memory_for nothing(0);
        for (std::size_t i = 0; i < most; ++i) REQUIRE(on.pool.schedule(1ms, std::ref(again)));
        for (int round = 0; round < 10; ++round) CHECK_EQ(on.pass(1ms), most);
        CHECK_EQ(refused, 0);
        CHECK_EQ(on.pool.high_water(), most);
    }
}

Test(pool_allocation, reserving_for_nothing_allocates_nothing) {
    pooled on;
    const int before = allocations;
    CHECK(on.pool.reserve(0));
    CHECK_EQ(allocations, before);
}

Test(pool_allocation, a_pool_refilled_to_its_maximum_allocates_nothing) {
    pooled on;
    int fired = 0;
    std::array<timeout_handle, 500> all;
    const auto fill = [&] {
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = on.pool.schedule(1ms + i * 37us, [&] { ++fired; }).handle;
    };
    fill();
    on.pool.schedule_every(3ms, [&](const timeout_call& c) { fired += c.self ? 1 : 0; });
    on.pass(1s);
    const memory_for nothing(0);
    for (int round = 0; round < 100; ++round) {
        fill();
        for (std::size_t i = 0; i < all.size(); i += 3) on.pool.cancel(all[i]);
        for (std::size_t i = 1; i < all.size(); i += 3) on.pool.reschedule(all[i], 40ms);
        on.pool.run_early(round % 7 == 0);
        on.pass(100ms);
        REQUIRE_EQ(on.pool.pending(), 1);
    }
    on.pool.trim();
    CHECK_EQ(on.pool.stop(), 1);
    CHECK_GE(fired, 30'000);
}

Test(pool_allocation, schedule_reports_a_lack_of_memory) {
    pooled on;
    const auto token = std::make_shared<int>();
    for (int i = 0; i < 64; ++i) on.pool.schedule(1ms, [token] {});
    {
        const memory_for nothing(0);
        const auto refused = on.pool.schedule(1ms, [token] {});
        CHECK(!refused);
        CHECK(!refused.handle);
        CHECK_EQ(refused.error, schedule_error::out_of_memory);
        CHECK_EQ(on.pool.schedule_every(1ms, [token] {}).error, schedule_error::out_of_memory);
        CHECK_EQ(on.pool.count().rejected, 2);
        CHECK_EQ(on.pool.pending(), 64);
        CHECK(!on.pool.reserve(100));
        CHECK_EQ(on.pass(1ms), 64);
        CHECK(on.pool.schedule(1ms, [token] {}));  // in a node that has become free
    }
    for (int i = 0; i < 100; ++i) CHECK(on.pool.schedule(1ms, [token] {}));
    CHECK_EQ(on.pass(1ms), 101);
    CHECK_EQ(support::held(token), 0);
}

Test(pool_allocation, a_failed_allocation_leaves_the_pool_unchanged) {
    for (int grants = 0; grants < 40; ++grants) {
        pooled on;
        std::size_t taken = 0;
        {
            const memory_for some(grants);
            while (taken < 2'048 && on.pool.schedule(1ms, [] {})) ++taken;
            CHECK_EQ(taken, on.pool.capacity());
            CHECK_EQ(taken, on.pool.pending());
        }
        CHECK(on.pool.reserve(2'048));
        CHECK_EQ(on.pass(1ms), taken);
        CHECK_EQ(on.pool.trim(), 2'048 + 64);  // one more slab, for the running function
        CHECK_EQ(on.pool.capacity(), 0);
    }
}
