// Requests whose timeout is always cancelled because each is answered in time: no timer fires.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads.hpp"

namespace bench {

// Allocates an object for each request and frees it at the end. The places of requests in flight
// are numbered.
template <class A> class allocated_requests {
public:
    explicit allocated_requests(field<A>& f) : wheel_(f.wheel()), under_way_(f.size()) {}

    [[gnu::always_inline]] void begin(std::size_t place) {
        request* const r = under_way_[place] = new request;
        if constexpr (adopts<A>) wheel_.adopt(r->timer);
        wheel_.arm(r->timer, wheel_.now() + plan::request);
    }

    [[gnu::always_inline]] void end(std::size_t place) {
        request* const r = under_way_[place];
        wheel_.cancel(r->timer);
        if constexpr (discards<A>) {
            wheel_.discard(r);
        } else {
            if constexpr (adopts<A>) wheel_.release(r->timer);
            delete r;
        }
    }

private:
    using node = typename A::node;
    struct request {
        node timer;
        std::byte payload[sizeof(node) < object_size ? object_size - sizeof(node) : 1];
    };

    A& wheel_;
    std::vector<request*> under_way_;
};

// Takes an object for each request from a pool, with a timer that was used before.
template <class A> class pooled_requests {
public:
    explicit pooled_requests(field<A>& f)
        : field_(f), free_(f.what().order), under_way_(f.size()) {}

    [[gnu::always_inline]] void begin(std::size_t place) {
        const std::uint32_t taken = under_way_[place] = free_.back();
        free_.pop_back();
        field_.wheel().arm(field_.at(taken), field_.wheel().now() + plan::request);
    }

    [[gnu::always_inline]] void end(std::size_t place) {
        field_.wheel().cancel(field_.at(under_way_[place]));
        free_.push_back(under_way_[place]);
    }

private:
    field<A>& field_;
    std::vector<std::uint32_t> free_;
    std::vector<std::uint32_t> under_way_;
};

// Keeps as many requests in flight as there are timers. In each turn of the loop some random ones
// end, and as many begin. Yields nanoseconds for one end and one begin, the tick included.
template <class A, class Requests> measured answer_requests(field<A>& f) {
    Requests requests(f);
    for (std::size_t place = 0; place < f.size(); ++place) requests.begin(place);
    const std::size_t most = std::max<std::size_t>(f.size() / 100, 10);
    const measured spent = f.time([&] {
        std::span<const std::uint32_t> rest(f.what().other_order);
        while (!rest.empty()) {
            const auto turn = rest.first(std::min(most, rest.size()));
            for (const std::uint32_t place : turn) requests.end(place);
            for (const std::uint32_t place : turn) requests.begin(place);
            f.tick();
            rest = rest.subspan(turn.size());
        }
    });
    for (std::size_t place = 0; place < f.size(); ++place) requests.end(place);
    f.tick();
    return spent;
}

template <class A> void request(field<A>& f, figures& out) {
    out[requesting] = answer_requests<A, allocated_requests<A>>(f);
}
template <class A> void request_from_pool(field<A>& f, figures& out) {
    out[requesting_from_pool] = answer_requests<A, pooled_requests<A>>(f);
}

}  // namespace bench
