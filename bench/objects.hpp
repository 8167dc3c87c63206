// The objects that timers live in: 128 bytes each, on lines of their own, visited in random order.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace bench {

constexpr std::size_t object_size = 128;

template <class Node> struct alignas(64) object {
    Node node;
    std::byte payload[object_size - sizeof(Node)];
};

// The order of visits and the delays: the same for every structure.
struct plan {
    explicit plan(std::size_t n) : order(n), other_order(n), delays(n) {
        std::mt19937_64 random(n);
        std::iota(order.begin(), order.end(), 0u);
        std::shuffle(order.begin(), order.end(), random);
        other_order = order;
        std::shuffle(other_order.begin(), other_order.end(), random);
        for (std::uint32_t& d : delays) d = 1 + static_cast<std::uint32_t>(random() % longest);
    }
    static constexpr std::uint32_t longest = 60'000;

    std::vector<std::uint32_t> order;        // of arming
    std::vector<std::uint32_t> other_order;  // of what is done to the armed ones
    std::vector<std::uint32_t> delays;
};

// Memory for objects, optionally on huge pages. Objects are made and destroyed by `remake`.
template <class Node> class herd {
public:
    herd(std::size_t n, bool huge_pages) : bytes_(n * sizeof(object<Node>)), n_(n) {
        bytes_ = (bytes_ + page - 1) / page * page;
        memory_ = std::aligned_alloc(page, bytes_);
        if (memory_ == nullptr) throw std::bad_alloc();
        madvise(memory_, bytes_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        std::uninitialized_default_construct(objects().begin(), objects().end());
    }
    ~herd() {
        std::destroy(objects().begin(), objects().end());
        std::free(memory_);
    }
    herd(const herd&) = delete;
    herd& operator=(const herd&) = delete;

    // New objects in place of the old: nothing is linked any more, not even what was cancelled.
    void remake() {
        std::destroy(objects().begin(), objects().end());
        std::uninitialized_default_construct(objects().begin(), objects().end());
    }

    Node& operator[](std::size_t i) { return first()[i].node; }
    object<Node>* first() { return static_cast<object<Node>*>(memory_); }

private:
    static constexpr std::size_t page = std::size_t{2} << 20;

    std::span<object<Node>> objects() { return {first(), n_}; }

    std::size_t bytes_;
    std::size_t n_;
    void* memory_;
};

}  // namespace bench
