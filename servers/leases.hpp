// Timers on another thread's wheel. A wheel belongs to one thread. A thread that wants a timer on
// another one's wheel asks for it in a message. It gets exactly one answer: the timer has expired,
// or it was cancelled before that.
#pragma once

#include <functional>
#include <unordered_map>

#include "mail.hpp"
#include "timer_books.hpp"

namespace example {

using send_function = std::function<void(unsigned to, const message&)>;

// Keeps leases for others.
class lease_keeper {
public:
    lease_keeper(timer_books& books, std::uint16_t self, send_function send)
        : books_(books), self_(self), send_(std::move(send)) {}

    void asked(const message& m) {
        lease& l = leases_.try_emplace(key(m), *this, m).first->second;
        books_.arm(l.due, l.deadline, std::chrono::milliseconds(m.value));
        ++granted_;
    }

    // One that is not there has expired, and its answer is on its way.
    void cancelled(const message& m) {
        const auto found = leases_.find(key(m));
        if (found == leases_.end()) return;
        books_.cancel(found->second.due, found->second.deadline);
        answer(found->second, message::kind::cancelled);
    }

    std::uint64_t granted() const { return granted_; }

private:
    struct lease {
        lease(lease_keeper& k, const message& m) : keeper(&k), request(m) {}
        void on_due() {
            keeper->books_.fired(due, deadline);
            keeper->answer(*this, message::kind::expired);
        }
        lease_keeper* keeper;
        message request;
        time_point deadline;
        tvec::timer due{tvec::call<&lease::due, &lease::on_due>};
    };

    // Numbers are below 2^40.
    static std::uint64_t key(const message& m) { return std::uint64_t{m.from} << 40 | m.number; }

    // Ends it. A timer may be destroyed in its own callback.
    void answer(const lease& l, message::kind what) {
        const message request = l.request;
        leases_.erase(key(request));
        send_(request.from, {what, self_, request.number});
    }

    timer_books& books_;
    std::uint16_t self_;
    send_function send_;
    std::unordered_map<std::uint64_t, lease> leases_;
    std::uint64_t granted_ = 0;
};

// Holds leases that others keep.
class lease_holder {
public:
    lease_holder(std::uint16_t self, send_function send) : self_(self), send_(std::move(send)) {}

    // Asks `keeper` for a lease on behalf of `owner`. Returns its number.
    std::uint64_t ask(unsigned keeper, std::uint64_t owner, std::chrono::milliseconds length) {
        const std::uint64_t number = ++asked_;
        held_.emplace(number, held{keeper, owner, timers::clock::now() + length});
        send_(keeper, {message::kind::ask, self_, number, static_cast<int>(length.count())});
        return number;
    }

    // It will be answered all the same: as cancelled, or as expired if that came first.
    void cancel(std::uint64_t number) {
        const auto found = held_.find(number);
        if (found != held_.end())
            send_(found->second.keeper, {message::kind::cancel, self_, number});
    }

    // Returns whose lease it was.
    std::uint64_t answered(const message& m) {
        const auto found = held_.find(m.number);
        if (found == held_.end()) throw std::logic_error("an answer to no question");
        const held lease = found->second;
        held_.erase(found);
        if (m.what == message::kind::cancelled)
            ++cancelled_;
        else
            late_.record(timers::clock::now() - lease.until);
        return lease.owner;
    }

    std::size_t unanswered() const { return held_.size(); }
    std::uint64_t asked() const { return asked_; }
    std::uint64_t cancelled() const { return cancelled_; }
    // How long after the lease's end the answer came, both ways of the message included.
    const tvec::lateness_histogram& late() const { return late_; }
    bool balanced() const { return asked_ == cancelled_ + late_.count() + unanswered(); }

private:
    struct held {
        unsigned keeper;
        std::uint64_t owner;
        time_point until;
    };

    std::uint16_t self_;
    send_function send_;
    std::unordered_map<std::uint64_t, held> held_;
    tvec::lateness_histogram late_;
    std::uint64_t asked_ = 0;
    std::uint64_t cancelled_ = 0;
};

}  // namespace example
