// An order service: orders are placed, and paid in time or closed. Kill and restart it: no order is
// forgotten, as its books show. On a Redis server several processes share them. Each order has a
// durable timer. The handler may be called twice, so the book of orders decides what is still to be
// done.
#include <random>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/figures.hpp"
#include "../../examples/support/program.hpp"
#include "../support/open_store.hpp"
#include "loop.hpp"
#include "order_book.hpp"

namespace {

using namespace std::chrono_literals;
using namespace tvec::durable;

struct settings {
    std::string store;
    std::string book;
    unsigned seconds = 10;
    unsigned rate = 200;
    unsigned pay_ms = 1'000;
    bool finish = false;
};

class service {
public:
    explicit service(const settings& s)
        : settings_(s), book_(s.book), store_(example::open_store(s.store)),
          timers_(
              loop_.wheel(), *store_, [this](delivery d) { on_due(d); }, limits()) {
        // Orders that were placed but not confirmed as stored when the last process ended.
        for (const auto& [id, o] : book_.open())
            if (o.state == example::order_state::placed) put(id, o.due);
    }

    int run() {
        fmt::print("orders: begins with {} open orders\n", book_.open().size());
        std::fflush(stdout);
        loop_.wheel().arm_after(beat_, 0s);
        loop_.wheel().arm_after(report_, 1s);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(settings_.seconds);
        is_placing_ = !settings_.finish;
        while (loop_.turn(timers_)) {
            if (broken_) std::rethrow_exception(broken_);
            if (!settings_.finish && std::chrono::steady_clock::now() >= end) break;
            if (settings_.finish && book_.open().empty()) break;
        }
        stop();
        return report();
    }

private:
    options limits() {
        options o;
        o.claim_lease = 5s;
        o.shard_lease = 3s;  // if one is killed, the others are late by as much
        o.on_exception = [this](std::exception_ptr e) { broken_ = e; };
        return o;
    }

    // [handler]
    void on_due(const delivery& d) {
        if (book_.close(d.token.id)) {
            const auto late = timers_.now() - d.due;
            early_ += late < 0ms;
        }
        timers_.done(d.token);  // also if it was paid, or closed before: then nothing is left to do
    }
    // [handler]

    // [place]
    void place() {
        const std::string id = fmt::format("{:08x}-{}", name_, ++placed_);
        const time_point due = timers_.now() + duration(settings_.pay_ms);
        book_.place(id, due);
        put(id, due);
    }

    void put(const std::string& id, time_point due) {
        const refusal r = timers_.put({id, due}, existing::keep, [this, id](put_result result) {
            if (result == put_result::stored || result == put_result::there_already)
                book_.accept(id);
        });
        if (r != refusal::none) ++refused_;
    }

    void pay(const std::string& id) {
        if (book_.pay(id)) static_cast<void>(timers_.cancel(id));  // saves a call of the handler
    }
    // [place]

    // Customers come, and three of four pay.
    void on_beat() {
        if (!is_placing_) return;
        const auto per_beat = std::max(settings_.rate / 100, 1U);
        for (unsigned i = 0; i < per_beat; ++i) {
            place();
            if (random_() % 4 != 0 && !book_.open().empty()) pay(somebody());
        }
        loop_.wheel().arm_after(beat_, per_beat * 1'000'000us / settings_.rate);
    }

    std::string somebody() {
        const auto ago = random_() % std::min<std::uint64_t>(placed_, 50);
        const std::string id = fmt::format("{:08x}-{}", name_, placed_ - ago);
        return book_.open().contains(id) ? id : book_.open().begin()->first;
    }

    void on_report() {
        book_.read();  // orders that others have closed
        fmt::print("{:>8} placed {:>8} paid {:>8} closed {:>6} open, late {}\n", book_.placed(),
                   book_.paid(), book_.closed(), book_.open().size(),
                   example::spread(timers_.late()));
        std::fflush(stdout);
        loop_.wheel().arm_after(report_, 1s);
    }

    // Gives the shards back, and waits for requests in flight.
    void stop() {
        bool is_over = false;
        is_placing_ = false;
        timers_.stop([&](const auto&) { is_over = true; });
        while (!is_over) loop_.turn(timers_);
    }

    int report() const {
        const counters& c = timers_.counters();
        fmt::print("orders, all processes so far:\n");
        example::print_line("placed", book_.placed());
        example::print_line("paid", book_.paid());
        example::print_line("closed", book_.closed());
        example::print_line("open", book_.open().size());
        fmt::print("timers, this process:\n");
        example::print_line("stored", c.stored);
        example::print_line("cancelled", c.cancelled);
        example::print_line("delivered", fmt::format("{} ({} again)", c.delivered, c.retries));
        example::print_line("late", example::spread(timers_.late()));
        const bool is_right = book_.balances() && early_ == 0 && timers_.late().early() == 0 &&
                              refused_ == 0 && c.failed == 0;
        example::print_line("books", is_right ? "balance" : "DO NOT BALANCE");
        return is_right ? 0 : 1;
    }

    settings settings_;
    std::exception_ptr broken_;  // the exception of a handler or a completion
    example::loop loop_;         // blocks the signals for the threads of the store
    example::order_book book_;
    std::unique_ptr<store> store_;
    timers<> timers_;
    tvec::timer beat_{tvec::call<&service::beat_, &service::on_beat>};
    tvec::timer report_{tvec::call<&service::report_, &service::on_report>};
    const unsigned name_ = std::random_device{}();  // makes the ids of its orders unique
    std::mt19937_64 random_{name_};
    std::uint64_t placed_ = 0, early_ = 0, refused_ = 0;
    bool is_placing_ = false;
};

settings parse(int argc, char** argv) {
    settings s;
    example::command_line line{
        "Takes orders, which are paid in time or closed by a durable timer. Ends after --seconds, "
        "or on SIGINT;\nkill it and start it again with the same files. On a Redis server several "
        "may run at a time. Exits\nnon-zero if the books do not balance.",
        "orders"};
    line.add_text("--store", s.store, example::store_help);
    line.require("--store");
    line.add_text("--book", s.book, "the file of the orders");
    line.require("--book");
    line.add_number("--seconds", s.seconds, 1, 86'400, "how long to go on, in seconds");
    line.add_number("--rate", s.rate, 1, 100'000, "orders per second");
    line.add_number("--pay-ms", s.pay_ms, 1, 86'400'000, "an order is to be paid within, in ms");
    line.add_flag("--finish", s.finish, "places nothing, and ends when no order is open");
    line.parse_or_exit(argc, argv);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("orders", [&] { return service(parse(argc, argv)).run(); });
}
