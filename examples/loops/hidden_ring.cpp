// A wheel as a guest of a framework that keeps its ring to itself, as coroutine runtimes on
// io_uring do: no wait, no submission and no completion is seen outside. One sleep of the framework
// carries the next wake-up of all timers.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <set>
#include <utility>

#include "../support/ring.hpp"
#include "conversation.hpp"
#include "mailbox.hpp"
#include "tvec/guests/guest.hpp"

namespace {

// Stands for the framework: it calls back when a descriptor is readable and after a while, and
// takes nothing back that it was asked for.
class framework {
public:
    using function = std::function<void()>;

    void when_readable(int fd, function f) {
        ring_.queue(added({std::move(f), {}}), io_uring_prep_poll_add, fd, unsigned{POLLIN});
    }
    void after(std::chrono::nanoseconds delay, function f) {
        const auto whole = std::chrono::floor<std::chrono::seconds>(delay);
        const std::uint64_t tag = added({std::move(f), {whole.count(), (delay - whole).count()}});
        ring_.queue(tag, io_uring_prep_timeout, &begun_.front().delay, 0u, 0u);
    }
    void run() {
        while (!stopped_) {
            ring_.submit_and_wait();
            ring_.reap([this](std::uint64_t tag, int, bool) { complete(tag); });
        }
    }
    void stop() { stopped_ = true; }
    // Returns the most operations that were under way at a time.
    std::size_t most_begun() const { return most_begun_; }

private:
    struct operation {
        function f;
        __kernel_timespec delay;
        std::list<operation>::iterator here{};
    };

    std::uint64_t added(operation o) {
        begun_.push_front(std::move(o));
        begun_.front().here = begun_.begin();
        most_begun_ = std::max(most_begun_, begun_.size());
        return reinterpret_cast<std::uintptr_t>(&begun_.front());
    }
    void complete(std::uint64_t tag) {
        auto& o = *reinterpret_cast<operation*>(static_cast<std::uintptr_t>(tag));
        const function f = std::move(o.f);
        begun_.erase(o.here);
        f();
    }

    std::list<operation> begun_;
    example::ring ring_{64};  // goes first: the kernel reads what has begun
    bool stopped_ = false;
    std::size_t most_begun_ = 0;
};

// [host]
// Sleeps are not taken back, so one begins only if none that is under way ends as early. One more
// than needed, for each alarm that came earlier, does no harm.
class framework_host {
    using clock = std::chrono::steady_clock;

public:
    framework_host(tvec::guest_turn turn, framework& f) : turn_(turn), framework_(f) {}
    framework_host(const framework_host&) = delete;
    framework_host& operator=(const framework_host&) = delete;

    void set_alarm(clock::time_point t) noexcept {
        if (t == t.max() || (!sleeps_.empty() && *sleeps_.begin() <= t)) return;
        sleeps_.insert(t);
        const auto ring = [this, t, host = std::weak_ptr(alive_)] {
            if (host.expired()) return;
            sleeps_.erase(t);
            turn_();
        };
        framework_.after(std::max(t - clock::now(), clock::duration::zero()), ring);
    }

private:
    tvec::guest_turn turn_;
    framework& framework_;
    std::set<clock::time_point> sleeps_;  // ends of those that are under way
    std::shared_ptr<bool> alive_ = std::make_shared<bool>();
};
// [host]

// Calls on_readable() of an object whenever its descriptor is readable.
template <class Object> void watch(framework& loop, Object& object) {
    loop.when_readable(object.fd(), [&loop, &object] {
        object.on_readable();
        watch(loop, object);
    });
}

}  // namespace

int main() {
    framework loop;
    tvec::guest<framework_host> timers{loop};
    example::conversation talk(*timers);
    example::mailbox mailbox(*timers, 4);
    talk.let_in(mailbox.sender());
    talk.when_over([&] { loop.stop(); });
    watch(loop, talk);
    watch(loop, mailbox);
    loop.run();
    if (loop.most_begun() > 8) {  // two descriptors, and a sleep or two more than one
        std::fprintf(stderr, "hidden_ring: %zu operations at a time\n", loop.most_begun());
        return 1;
    }
    return talk.verdict("hidden_ring");
}
