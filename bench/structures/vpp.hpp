// The wheel of VPP, written anew after its src/vppinfra/tw_timer_template.h: three rings of 1024
// slots, and lists of 16-byte nodes that are linked by their indices in a pool. An object knows its
// timer by a handle. A node knows its object, and its slots in the rings below its own. VPP
// collects the handles of a tick first and then calls back once. It asks for no wake-up: its loops
// poll.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

#include "../workloads/test_bed.hpp"

namespace bench {

struct vpp_adapter {
    static constexpr const char* name = "vpp";
    static constexpr description is{
        .what = "VPP's wheel: three rings of 1024 slots, 16-byte nodes in a pool",
        .order = "newest first; a cascade reverses",
        .allocation = "a pool of nodes",
        .cancel = "unlinks"};

    struct alignas(16) node {
        std::uint32_t handle = none;
        void (*fire)(node&, std::uint64_t now) = note;
    };

    vpp_adapter() : pool_(3 * slots) {
        for (std::uint32_t head = 0; head < 3 * slots; ++head)
            pool_[head].next = pool_[head].previous = head;
    }

    std::uint64_t now() const { return now_; }

    [[gnu::always_inline]] void arm(node& n, std::uint64_t at) {
        const std::uint64_t expires = at > now_ ? at : now_ + 1;
        assert(expires - now_ < std::uint64_t{slots - 1} << 20);
        if (n.handle == none)
            n.handle = allocate();
        else
            unlink(n.handle);
        pool_[n.handle].set(n, expires);
        link(n.handle, slot_of(expires));
    }
    [[gnu::always_inline]] void cancel(node& n) {
        if (n.handle == none) return;
        unlink(n.handle);
        release_handle(n);
    }

    [[gnu::always_inline]] void advance(std::uint64_t until) {
        while (now_ < until) {
            ++now_;
            if (now_ % slots == 0) [[unlikely]]
                cascade();
            const std::uint32_t head = fast(now_);
            if (pool_[head].next != head) expire(head);
        }
    }

private:
    static constexpr std::uint32_t slots = 1024, none = ~0u;

    struct element {
        std::uint32_t next, previous;
        std::uint64_t packed;  // 44 bits of the object's address, its slots in the two lower rings

        void set(node& n, std::uint64_t expires) {
            packed = reinterpret_cast<std::uintptr_t>(&n) >> 4 << 20 | expires % (slots * slots);
        }
        node& owner() const { return *reinterpret_cast<node*>(packed >> 20 << 4); }
        std::uint64_t offsets() const { return packed % (slots * slots); }
    };
    static_assert(sizeof(element) == 16);

    static void note(node& n, std::uint64_t now) { seen.note(n, now); }

    static std::uint32_t fast(std::uint64_t tick) { return tick % slots; }
    static std::uint32_t slow(std::uint64_t tick) { return slots + tick / slots % slots; }
    static std::uint32_t glacier(std::uint64_t tick) {
        return 2 * slots + static_cast<std::uint32_t>((tick >> 20) % slots);
    }
    [[gnu::always_inline]] std::uint32_t slot_of(std::uint64_t tick) const {
        if (tick >> 20 != now_ >> 20) return glacier(tick);
        return tick / slots != now_ / slots ? slow(tick) : fast(tick);
    }

    [[gnu::always_inline]] std::uint32_t allocate() {
        const std::uint32_t handle = free_;
        if (handle == none) [[unlikely]]
            return grow();
        free_ = pool_[handle].next;
        return handle;
    }
    [[gnu::noinline]] std::uint32_t grow() {
        pool_.emplace_back();
        return static_cast<std::uint32_t>(pool_.size() - 1);
    }
    [[gnu::always_inline]] void release_handle(node& n) {
        pool_[n.handle].next = free_;
        free_ = n.handle;
        n.handle = none;
    }

    [[gnu::always_inline]] void link(std::uint32_t handle, std::uint32_t head) {
        element& e = pool_[handle];
        e.next = pool_[head].next;
        e.previous = head;
        pool_[e.next].previous = pool_[head].next = handle;
    }
    [[gnu::always_inline]] void unlink(std::uint32_t handle) {
        const element& e = pool_[handle];
        pool_[e.next].previous = e.previous;
        pool_[e.previous].next = e.next;
    }

    [[gnu::noinline]] void cascade() {
        if (now_ % (slots * slots) == 0) cascade(glacier(now_));
        cascade(slow(now_));
    }
    void cascade(std::uint32_t head) {
        while (pool_[head].next != head) {
            const std::uint32_t handle = pool_[head].next;
            unlink(handle);
            link(handle, slot_of(now_ >> 20 << 20 | pool_[handle].offsets()));
        }
    }

    [[gnu::noinline]] void expire(std::uint32_t head) {
        while (pool_[head].next != head) {
            node& n = pool_[pool_[head].next].owner();
            unlink(n.handle);
            release_handle(n);
            n.fire(n, now_);
        }
    }

    std::uint64_t now_ = start;
    std::uint32_t free_ = none;
    std::vector<element> pool_;  // the heads of the slots first
};

}  // namespace bench
