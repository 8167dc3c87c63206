// The cost of the memory alone: no timer structure can do with less.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "workloads.hpp"

namespace bench {

class floors {
public:
    // One store to each object, in random order.
    static double store(const stage& s) {
        return each(s, [](node& n, std::uint64_t at) { n.expires = at; });
    }

    // The same in the order of memory.
    static double store_in_memory_order(const stage& s) {
        herd<node> objects(s.where, s.what.size());
        const long_stopwatch watch;
        for (std::size_t i = 0; i < objects.size(); ++i)
            objects[i].expires = start + s.what.delays[i];
        asm volatile("" : : : "memory");
        return watch.nanoseconds() / static_cast<double>(objects.size());
    }

    // One load, compare and store: what a push-back cannot do without.
    static double load_compare_store(const stage& s) {
        return each(s, [](node& n, std::uint64_t at) {
            if (n.expires <= at) n.expires = at;
        });
    }

    // An array sorted by deadline, fired in order: expiry without a structure.
    static double fire_sorted(const stage& s) {
        herd<node> objects(s.where, s.what.size());
        seen.restart(objects.first(), objects.size());
        std::vector<node*> sorted;
        for (std::size_t i = 0; i < objects.size(); ++i) {
            node& n = objects[s.what.order[i]];
            n.expires = start + s.what.delays[i];
            sorted.push_back(&n);
        }
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const node* a, const node* b) { return a->expires < b->expires; });
        const long_stopwatch watch;
        for (node* n : sorted) n->fire(*n);
        return watch.nanoseconds() / static_cast<double>(sorted.size());
    }

    // The events of a server, each one load, compare and store.
    static double serve_nothing(const stage& s) {
        field<memory_only> f(s);
        figures out;
        serve(f, out);
        return out[serving].value;
    }

    // A server's day, each operation one load, compare and store.
    static double serve_day_nothing(const stage& s, const day& d) {
        field<memory_only> f(s);
        return serve_day(f, d);
    }

    // An empty measurement.
    static double empty_measurement(const stage&) {
        std::vector<double> all(10'000);
        for (double& t : all) t = stopwatch().nanoseconds();
        std::nth_element(all.begin(), all.begin() + 5'000, all.end());
        return all[5'000];
    }

private:
    struct node {
        std::uint64_t expires = 0;
        void (*fire)(node&) = [](node& n) { seen.note(n, n.expires); };
    };

    // Arms and cancels by touching the node, and never fires.
    struct memory_only {
        static constexpr const char* name = "floor";
        static constexpr description is{};
        struct node {
            std::uint64_t expires = 0;
            void (*fire)(node&) = nullptr;
        };
        std::uint64_t now() const { return now_; }
        void arm(node& n, std::uint64_t at) {
            if (n.expires <= at) n.expires = at;
        }
        void cancel(node& n) { n.expires = 0; }
        void advance(std::uint64_t until) { now_ = until; }

    private:
        std::uint64_t now_ = start;
    };

    template <class F> static double each(const stage& s, F f) {
        herd<node> objects(s.where, s.what.size());
        const long_stopwatch watch;
        for (std::size_t i = 0; i < objects.size(); ++i)
            f(objects[s.what.order[i]], start + s.what.delays[i]);
        asm volatile("" : : : "memory");
        return watch.nanoseconds() / static_cast<double>(objects.size());
    }
};

}  // namespace bench
