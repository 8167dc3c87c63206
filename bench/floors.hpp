// What the memory alone costs: no timer structure can do with less than these.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "workloads.hpp"

namespace bench {

struct plain_node {
    std::uint64_t expires = 0;
    void (*fire)(plain_node&) = [](plain_node& n) { seen.note(n.expires, n.expires); };
};

class floors {
public:
    floors(const plan& p, bool huge_pages) : plan_(p), herd_(p.order.size(), huge_pages) {}

    // One store to each object, in random order.
    double store() {
        return each([](plain_node& n, std::uint64_t at) { n.expires = at; });
    }

    // One load, compare and store: what a push-back cannot do without.
    double load_compare_store() {
        return each([](plain_node& n, std::uint64_t at) {
            if (n.expires <= at) n.expires = at;
        });
    }

    // An array sorted by deadline, fired in order: expiry without a structure.
    double fire_sorted() {
        std::vector<plain_node*> sorted;
        for (std::size_t i = 0; i < plan_.order.size(); ++i) {
            plain_node& n = herd_[plan_.order[i]];
            n.expires = start + plan_.delays[i];
            sorted.push_back(&n);
        }
        std::stable_sort(
            sorted.begin(), sorted.end(),
            [](const plain_node* a, const plain_node* b) { return a->expires < b->expires; });
        const auto begin = clock::now();
        for (plain_node* n : sorted) n->fire(*n);
        return nanoseconds_since(begin) / static_cast<double>(sorted.size());
    }

private:
    template <class F> double each(F f) {
        herd_.remake();
        const auto begin = clock::now();
        for (std::size_t i = 0; i < plan_.order.size(); ++i)
            f(herd_[plan_.order[i]], start + plan_.delays[i]);
        asm volatile("" : : : "memory");
        return nanoseconds_since(begin) / static_cast<double>(plan_.order.size());
    }

    const plan& plan_;
    herd<plain_node> herd_;
};

}  // namespace bench
