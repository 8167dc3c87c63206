// Workers that hold a lock for as long as they work, as Redisson's watchdog does: the lock is a
// lease of a few seconds, and a timer renews it. A worker that was held up loses its lease without
// knowing. Two things make that harmless: a second timer tells the worker, and the storage refuses
// the token of an older lease. A manual clock runs it as a test.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

using wheel = tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, tvec::manual_clock>>;
using time_point = wheel::time_point;
using token = std::uint64_t;  // of a lease; a later lease has a higher one

constexpr auto lease_time = 30s;

// Stands for Redis, etcd or a table: gives a lock to one holder at a time, until its lease is over.
class lock_service {
public:
    std::optional<token> acquire(const std::string& lock) {
        lease& l = leases_[lock];
        if (!reachable || now() < l.until) return std::nullopt;
        l = {++last_, now() + lease_time};
        return l.holder;
    }
    // Returns whether the lease goes on; empty if there was no answer.
    std::optional<bool> renew(const std::string& lock, token holder) {
        if (!reachable) return std::nullopt;
        lease& l = leases_[lock];
        if (l.holder != holder || now() >= l.until) return false;
        l.until = now() + lease_time;
        ++renewals;
        return true;
    }
    void release(const std::string& lock, token holder) {
        if (leases_[lock].holder == holder) leases_[lock].until = now();
    }

    bool reachable = true;
    int renewals = 0;

private:
    static time_point now() { return tvec::manual_clock::now(); }
    struct lease {
        token holder = 0;
        time_point until = time_point::min();
    };
    std::map<std::string, lease> leases_;
    token last_ = 0;
};

// The storage that the lock protects has the last word. A token that is older than one it has seen
// belongs to a lease that is over, although its holder may not know.
class storage {
public:
    bool write(const std::string& key, token holder, int value) {
        entry& e = entries_[key];
        if (holder < e.newest) return false;
        e = {holder, value};
        return true;
    }
    int read(const std::string& key) { return entries_[key].value; }

private:
    struct entry {
        token newest = 0;
        int value = 0;
    };
    std::map<std::string, entry> entries_;
};

// A lease that is renewed until it is released or lost. Two timers: `renewal` comes three times in
// a lease, and `end` is pushed back by each success. `end` counts from before the request, and the
// service begins to count later. A deadline rounds up to a tick, so `end` is armed a tick earlier:
// then the worker knows first. A loop that may be late takes off that, too.
class renewed_lease {
public:
    renewed_lease(wheel& timers, lock_service& service, std::string lock)
        : timers_(timers), service_(service), lock_(std::move(lock)) {
        const time_point asked = tvec::manual_clock::now();
        holder_ = service_.acquire(lock_);
        if (!holder_) return;
        end_after(asked);
        timers_.arm_after(renewal_, lease_time / 3);
    }
    ~renewed_lease() {
        if (holder_) service_.release(lock_, *holder_);
    }

    // The token for the storage; empty if another holds the lock, or the lease is lost.
    std::optional<token> holder() const { return holder_; }

private:
    void on_renewal() {
        const time_point asked = tvec::manual_clock::now();
        const std::optional<bool> goes_on = service_.renew(lock_, *holder_);
        if (goes_on == false) return on_end();
        if (goes_on) end_after(asked);               // a push-back: one store
        timers_.arm_next(renewal_, lease_time / 3);  // no answer: the next may have one
    }
    void end_after(time_point asked) { timers_.arm_at(end_, asked + lease_time - wheel::tick(1)); }
    void on_end() {
        holder_.reset();  // here the worker stops its work
        renewal_.cancel();
        end_.cancel();
    }

    wheel& timers_;
    lock_service& service_;
    std::string lock_;
    std::optional<token> holder_;
    tvec::timer renewal_{tvec::call<&renewed_lease::renewal_, &renewed_lease::on_renewal>};
    tvec::timer end_{tvec::call<&renewed_lease::end_, &renewed_lease::on_end>};
};

void pass(wheel& timers, std::chrono::seconds time) {
    for (const auto end = tvec::manual_clock::now() + time; tvec::manual_clock::now() < end;) {
        tvec::manual_clock::advance(1s);
        timers.run();
    }
}

// A worker for each lock. Nobody else gets one while they work.
bool workers_keep_their_locks(wheel& timers, lock_service& service) {
    std::vector<std::string> locks{"invoices", "mails", "reports"};
    std::vector<std::unique_ptr<renewed_lease>> workers;
    workers.reserve(locks.size());
    for (const auto& lock : locks)
        workers.push_back(std::make_unique<renewed_lease>(timers, service, lock));
    pass(timers, 300s);
    bool held = service.renewals == 3 * 30;
    for (const auto& lock : locks) held &= !renewed_lease(timers, service, lock).holder();
    for (const auto& w : workers) held &= w->holder().has_value();
    workers.clear();  // released at once
    held &= renewed_lease(timers, service, "mails").holder().has_value();
    return held && !timers.any_pending();
}

// A process stands still for longer than its lease: another has the lock meanwhile.
bool a_late_write_is_refused(wheel& timers, lock_service& service, storage& data) {
    renewed_lease stalled(timers, service, "stock");
    const token old = *stalled.holder();
    bool fine = data.write("stock", old, 1);
    tvec::manual_clock::advance(lease_time + 1s);  // and the wheel does not run
    wheel elsewhere;
    const renewed_lease other(elsewhere, service, "stock");
    fine &= data.write("stock", *other.holder(), 2);
    fine &= !data.write("stock", old, 3);  // it does not know yet, and the storage does
    timers.run();
    return fine && !stalled.holder() && data.read("stock") == 2 && !timers.any_pending();
}

// The service does not answer. The worker ends before the service gives the lock away.
bool without_answers_the_worker_ends_in_time(wheel& timers, lock_service& service) {
    renewed_lease cut_off(timers, service, "backup");
    pass(timers, 5s);
    service.reachable = false;
    pass(timers, 24s);
    bool fine = cut_off.holder().has_value();
    pass(timers, 1s);
    fine &= !cut_off.holder();
    service.reachable = true;
    return fine && renewed_lease(timers, service, "backup").holder().has_value();
}

// The same in a loop that is never late, between two ticks. Another worker asks ten times a tick.
bool a_lease_ends_before_the_next_begins(wheel& timers, lock_service& service) {
    tvec::manual_clock::advance(300us);
    const renewed_lease first(timers, service, "ledger");
    service.reachable = false;
    pass(timers, 29s);
    for (;; service.reachable = false) {
        tvec::manual_clock::advance(100us);
        timers.run();
        service.reachable = true;
        const renewed_lease second(timers, service, "ledger");
        if (second.holder()) return !first.holder();
    }
}

// One lost answer is no reason to end: two more renewals come before the lease does.
bool one_lost_answer_is_no_loss(wheel& timers, lock_service& service) {
    const renewed_lease worker(timers, service, "index");
    service.reachable = false;
    pass(timers, 15s);
    service.reachable = true;
    pass(timers, 60s);
    return worker.holder().has_value();
}

}  // namespace

int main() {
    wheel timers;
    lock_service service;
    storage data;
    const bool fine = workers_keep_their_locks(timers, service) &&
                      a_late_write_is_refused(timers, service, data) &&
                      without_answers_the_worker_ends_in_time(timers, service) &&
                      one_lost_answer_is_no_loss(timers, service) &&
                      a_lease_ends_before_the_next_begins(timers, service);
    std::printf("%d renewals; a late write was refused\n", service.renewals);
    return fine ? 0 : 1;
}
