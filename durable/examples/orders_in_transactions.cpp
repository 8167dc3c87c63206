// Orders in a table of an SQLite file, and their timers in the same file: an order and its timer
// are placed in one transaction, so a crash leaves both or neither. Kill it and start it again.
#include <sqlite3.h>

#include <random>
#include <stdexcept>

#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/figures.hpp"
#include "../../examples/support/program.hpp"
#include "loop.hpp"
#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/sqlite_transactions.hpp"

namespace {

using namespace std::chrono_literals;
using namespace tvec::durable;

struct settings {
    std::string store;
    unsigned seconds = 10;
    bool finish = false;
};

// The service's own connection.
class connection {
public:
    explicit connection(const std::string& file) {
        require(sqlite3_open(file.c_str(), &db_));
        sqlite3_busy_timeout(db_, 10'000);  // the store writes into the file as well
    }
    ~connection() { sqlite3_close(db_); }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    operator sqlite3*() const { return db_; }

    // Returns the number of changed rows.
    int execute(const std::string& sql) {
        require(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr));
        return sqlite3_changes(db_);
    }
    std::int64_t number(const std::string& sql) {
        std::int64_t n = 0;
        const auto read = [](void* to, int, char** values, char**) {
            *static_cast<std::int64_t*>(to) = std::stoll(values[0]);
            return 0;
        };
        require(sqlite3_exec(db_, sql.c_str(), read, &n, nullptr));
        return n;
    }

private:
    void require(int code) const {
        if (code != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(db_));
    }

    sqlite3* db_ = nullptr;
};

class service {
public:
    explicit service(const settings& s)
        : settings_(s), store_(s.store, {.shares_file = true}), db_(s.store), own_(db_, store_),
          timers_(loop_.wheel(), store_, [this](const delivery& d) { on_due(d); }) {
        db_.execute("create table if not exists orders(id blob primary key, state text not null)");
    }

    int run() {
        loop_.wheel().arm_after(beat_, 0s);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(settings_.seconds);
        while (loop_.turn(timers_) && std::chrono::steady_clock::now() < end)
            if (settings_.finish && waiting() == 0) break;
        example::print_line("waiting", waiting());
        example::print_line("paid", count("paid"));
        example::print_line("closed", count("closed"));
        return settings_.finish && waiting() != 0 ? 1 : 0;
    }

private:
    // Places an order, which is to be paid within a second.
    void place(const std::string& id) {
        db_.execute("begin immediate");
        db_.execute(fmt::format("insert into orders values(cast('{}' as blob), 'waiting')", id));
        own_.put({id, timers_.now() + 1s}, existing::keep);
        db_.execute("commit");
    }

    void pay(const std::string& id) {
        db_.execute("begin immediate");
        if (change(id, "paid")) own_.cancel(id);
        db_.execute("commit");
    }

    void on_due(const delivery& d) {
        change(d.token.id, "closed");  // a transaction by itself
        timers_.done(d.token);
    }

    // Returns whether the order was waiting.
    bool change(const std::string& id, const char* to) {
        return db_.execute(fmt::format("update orders set state = '{}' where state = 'waiting' and"
                                       " id = cast('{}' as blob)",
                                       to, id)) == 1;
    }

    // A customer comes, and three of four pay.
    void on_beat() {
        if (settings_.finish) return;
        const std::string id = fmt::format("{:08x}-{}", name_, ++placed_);
        place(id);
        if (placed_ % 4 != 0) pay(id);
        loop_.wheel().arm_after(beat_, 2ms);
    }

    std::int64_t count(const char* state) {
        return db_.number(fmt::format("select count(*) from orders where state = '{}'", state));
    }
    std::int64_t waiting() { return count("waiting"); }

    settings settings_;
    example::loop loop_;
    sqlite_store store_;
    connection db_;
    sqlite_transactions own_;
    timers<> timers_;
    tvec::timer beat_{tvec::call<&service::beat_, &service::on_beat>};
    const unsigned name_ = std::random_device{}();  // makes the ids of its orders unique
    std::uint64_t placed_ = 0;
};

settings parse(int argc, char** argv) {
    settings s;
    example::command_line line{
        "Places orders and their timers in the same transactions, in one SQLite file. Ends after "
        "--seconds, or\non SIGINT; kill it and start it again with the same file.",
        "orders_in_transactions"};
    line.add_text("--store", s.store, "the file");
    line.require("--store");
    line.add_number("--seconds", s.seconds, 1, 86'400, "how long to go on, in seconds");
    line.add_flag("--finish", s.finish, "places nothing, and ends when no order waits");
    line.parse_or_exit(argc, argv);
    return s;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("orders_in_transactions",
                                [&] { return service(parse(argc, argv)).run(); });
}
