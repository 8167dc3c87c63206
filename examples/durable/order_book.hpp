// What an order service knows of its orders: a file that lines are added to. It is the truth; the
// timers only say when to look.
#pragma once

#include <fcntl.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "../support/descriptors.hpp"
#include "tvec/durable/store.hpp"

namespace example {

enum class order_state { placed, waiting, paid, closed };

struct order {
    order_state state = order_state::placed;
    tvec::durable::time_point due;  // to be paid by then
};

class order_book {
public:
    // Reads what there is, and goes on from there. A last line that was not finished is no line.
    explicit order_book(const std::string& file)
        : file_(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)) {
        if (file_.get() < 0) fail(file);
        std::ifstream lines(file);
        for (std::string line; std::getline(lines, line) && !lines.eof();) read(line);
    }

    // [truth]
    // A customer pays. Returns whether the order was still to be paid.
    bool pay(const std::string& id) { return decide(id, order_state::paid); }

    // The time is over. Returns whether nobody had paid; asked a second time, it changes nothing.
    bool close(const std::string& id) { return decide(id, order_state::closed); }
    // [truth]

    // An order is placed: its timer is about to be put.
    void place(const std::string& id, tvec::durable::time_point due) {
        orders_[id] = {order_state::placed, due};
        ++placed_;
        write(fmt::format("placed {} {}\n", id, due.time_since_epoch().count()));
    }
    // Its timer was stored.
    void accept(const std::string& id) {
        const auto o = orders_.find(id);
        if (o == orders_.end() || o->second.state != order_state::placed) return;
        o->second.state = order_state::waiting;
        write(fmt::format("waiting {}\n", id));
    }

    // Those that are neither paid nor closed.
    const std::map<std::string, order>& open() const { return orders_; }
    std::uint64_t placed() const { return placed_; }
    std::uint64_t paid() const { return paid_; }
    std::uint64_t closed() const { return closed_; }
    bool balances() const { return placed_ == paid_ + closed_ + orders_.size(); }

private:
    bool decide(const std::string& id, order_state to) {
        if (orders_.erase(id) == 0) return false;
        const bool is_paid = to == order_state::paid;
        ++(is_paid ? paid_ : closed_);
        write(fmt::format("{} {}\n", is_paid ? "paid" : "closed", id));
        return true;
    }

    void write(const std::string& line) {
        const auto n = ::write(file_.get(), line.data(), line.size());
        if (n != static_cast<ssize_t>(line.size())) fail("writing the orders");
    }

    void read(const std::string& line) {
        std::istringstream words(line);
        std::string what, id;
        std::int64_t due = 0;
        words >> what >> id >> due;
        if (what == "placed") {
            orders_[id] = {order_state::placed,
                           tvec::durable::time_point(tvec::durable::duration(due))};
            ++placed_;
        } else if (what == "waiting") {
            if (const auto o = orders_.find(id); o != orders_.end())
                o->second.state = order_state::waiting;
        } else {
            orders_.erase(id);
            ++(what == "paid" ? paid_ : closed_);
        }
    }

    descriptor file_;
    std::map<std::string, order> orders_;
    std::uint64_t placed_ = 0, paid_ = 0, closed_ = 0;
};

}  // namespace example
