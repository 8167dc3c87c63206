// The objects that contain the timers, on cache lines of their own, visited in random order.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace bench {

constexpr std::size_t line = 64;

// 128 bytes. A larger node (libuv's handle) takes as many lines as it needs.
constexpr std::size_t object_size = 2 * line;
template <class Node> struct alignas(line) object { Node node; };
template <class Node>
requires(sizeof(Node) < object_size) struct alignas(line) object<Node> {
    Node node;
    std::byte payload[object_size - sizeof(Node)];
};

// The largest object of all structures.
constexpr std::size_t object_limit = 3 * line;

// Memory for n objects of any structure: all structures use the same pages, in turn.
class ground {
public:
    ground(std::size_t n, bool huge_pages) : bytes_((n * object_limit + page - 1) / page * page) {
        memory_.reset(std::aligned_alloc(page, bytes_));
        if (!memory_) throw std::bad_alloc();
        madvise(memory_.get(), bytes_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
    void* memory() const { return memory_.get(); }

private:
    static constexpr std::size_t page = std::size_t{2} << 20;
    struct freer {
        void operator()(void* p) const { std::free(p); }
    };

    std::size_t bytes_;
    std::unique_ptr<void, freer> memory_;
};

// The objects of one structure, in that memory.
template <class Node> class herd {
public:
    static_assert(sizeof(object<Node>) <= object_limit);

    herd(const ground& g, std::size_t n) : objects_(static_cast<object<Node>*>(g.memory()), n) {
        std::uninitialized_default_construct(objects_.begin(), objects_.end());
    }
    ~herd() { std::destroy(objects_.begin(), objects_.end()); }
    herd(const herd&) = delete;
    herd& operator=(const herd&) = delete;

    std::size_t size() const { return objects_.size(); }
    Node& operator[](std::size_t i) { return objects_[i].node; }
    object<Node>* first() { return objects_.data(); }

private:
    std::span<object<Node>> objects_;
};

}  // namespace bench
