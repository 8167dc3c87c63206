// An order service's knowledge of its orders: a file to which one process appends lines, or several
// that share it. It is authoritative. The timers only tell when to look.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "../../examples/support/descriptors.hpp"
#include "tvec/durable/store.hpp"

namespace example {

enum class order_state { placed, waiting, paid, closed };

struct order {
    order_state state = order_state::placed;
    tvec::durable::time_point due;  // to be paid by then
};

class order_book {
public:
    // Reads new lines, and continues from there. Lines are appended atomically.
    explicit order_book(const std::string& file)
        : file_(::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) {
        if (file_.get() < 0) fail(file);
        read();
    }

    // Reads lines that were appended since, by any process.
    void read() {
        char part[65'536];
        for (ssize_t n = 0; (n = pread(file_.get(), part, sizeof part, at_)) > 0; at_ += n)
            unread_.append(part, static_cast<std::size_t>(n));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = unread_.find('\n', begin)) != unread_.npos;
             begin = end + 1)
            enter(unread_.substr(begin, end - begin));
        unread_.erase(0, begin);
    }

    // [truth]
    // A customer pays. Returns whether the order was still to be paid.
    bool pay(const std::string& id) { return decide(id, order_state::paid); }

    // The time is over. Returns whether nobody had paid; asked a second time, it changes nothing.
    bool close(const std::string& id) { return decide(id, order_state::closed); }
    // [truth]

    // An order is placed: its timer is about to be put.
    void place(const std::string& id, tvec::durable::time_point due) {
        write(fmt::format("placed {} {}\n", id, due.time_since_epoch().count()));
    }
    // Its timer was stored.
    void accept(const std::string& id) {
        const auto o = orders_.find(id);
        if (o == orders_.end() || o->second.state != order_state::placed) return;
        write(fmt::format("waiting {}\n", id));
    }

    // Returns the orders that are neither paid nor closed.
    const std::map<std::string, order>& open() const { return orders_; }
    std::uint64_t placed() const { return placed_; }
    std::uint64_t paid() const { return paid_; }
    std::uint64_t closed() const { return closed_; }
    bool balances() const { return placed_ == paid_ + closed_ + orders_.size(); }

private:
    // The first line about an order decides.
    bool decide(const std::string& id, order_state to) {
        read();
        if (!orders_.contains(id)) return false;
        const std::uint64_t mine = ++decisions_;
        decided_by_me_ = 0;
        write(fmt::format("{} {} {} {}\n", to == order_state::paid ? "paid" : "closed", id,
                          getpid(), mine));
        return decided_by_me_ == mine;
    }

    void write(const std::string& line) {
        const auto n = ::write(file_.get(), line.data(), line.size());
        if (n != static_cast<ssize_t>(line.size())) fail("writing the orders");
        read();
    }

    void enter(const std::string& line) {
        std::istringstream words(line);
        std::string what, id;
        std::int64_t number = 0;
        words >> what >> id >> number;
        const auto o = orders_.find(id);
        if (what == "placed") {
            orders_[id] = {order_state::placed,
                           tvec::durable::time_point(tvec::durable::duration(number))};
            ++placed_;
        } else if (o == orders_.end()) {
            return;
        } else if (what == "waiting") {
            o->second.state = order_state::waiting;
        } else {
            ++(what == "paid" ? paid_ : closed_);
            orders_.erase(o);
            std::uint64_t decision = 0;
            words >> decision;
            if (number == getpid()) decided_by_me_ = decision;
        }
    }

    descriptor file_;
    off_t at_ = 0;        // read so far,
    std::string unread_;  // except for this, the beginning of a line
    std::uint64_t decisions_ = 0, decided_by_me_ = 0;
    std::map<std::string, order> orders_;
    std::uint64_t placed_ = 0, paid_ = 0, closed_ = 0;
};

}  // namespace example
