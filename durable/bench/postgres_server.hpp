// A PostgreSQL server. By hand: a table, polled by `for update skip locked`. It syncs each commit,
// as it does where nobody has said otherwise.
#pragma once

#include <libpq-fe.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "load.hpp"
#include "tvec/durable/postgres_store.hpp"

namespace bench {

inline std::string conninfo(const std::string& folder) {
    return "host=" + folder + " user=postgres dbname=postgres";
}

class plain_postgres {
public:
    using result = std::unique_ptr<PGresult, void (*)(PGresult*)>;

    explicit plain_postgres(const std::string& folder) : c_(PQconnectdb(conninfo(folder).c_str())) {
        if (PQstatus(c_) != CONNECTION_OK) fail();
    }
    ~plain_postgres() { PQfinish(c_); }
    plain_postgres(const plain_postgres&) = delete;
    plain_postgres& operator=(const plain_postgres&) = delete;

    result run(const char* sql) { return checked(PQexec(c_, sql)); }
    double number(const char* sql) { return std::stod(PQgetvalue(run(sql).get(), 0, 0)); }
    void prepare(const char* name, const char* sql) {
        checked(PQprepare(c_, name, sql, 0, nullptr));
    }
    result run_prepared(const char* name, const std::vector<const char*>& values) {
        return checked(PQexecPrepared(c_, name, static_cast<int>(values.size()), values.data(),
                                      nullptr, nullptr, 0));
    }

private:
    [[noreturn]] void fail() {
        const std::string why = PQerrorMessage(c_);
        throw std::runtime_error(why.substr(0, why.find('\n')));
    }
    result checked(PGresult* r) {
        result mine(r, PQclear);
        const ExecStatusType s = PQresultStatus(r);
        if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK) fail();
        return mine;
    }

    PGconn* c_;
};

class postgres_table : public by_hand {
public:
    explicit postgres_table(const std::string& folder) : db_(folder) {
        db_.run("set client_min_messages = error;"
                "create table if not exists"
                " timer(id text primary key, due bigint not null, body text);"
                "create index if not exists by_due on timer(due)");
        db_.prepare("put",
                    "insert into timer select id, due, $3 from"
                    " unnest($1::text[], $2::bigint[]) as t(id, due) on conflict do nothing");
        db_.prepare("take", "delete from timer where id in (select id from timer where due <= $1"
                            " order by due limit 1000 for update skip locked) returning due, body");
    }

    void put(const std::vector<item>& items) override {
        std::string ids = "{", dues = "{";
        for (const item& i : items) {
            ids += i.id + ',';
            dues += std::to_string(i.due.time_since_epoch().count()) + ',';
        }
        ids.back() = dues.back() = '}';
        db_.run_prepared("put", {ids.c_str(), dues.c_str(), body.c_str()});
    }
    // At least once: it is committed after it was handled.
    void poll(const on_due& handle) override {
        for (int taken = 1'000; taken == 1'000;) {
            const std::string now = std::to_string(today().time_since_epoch().count());
            db_.run("begin");
            const auto r = db_.run_prepared("take", {now.c_str()});
            taken = PQntuples(r.get());
            for (int i = 0; i < taken; ++i)
                handle(time_point(duration(std::stoll(PQgetvalue(r.get(), i, 0)))));
            db_.run("commit");
        }
    }

private:
    plain_postgres db_;
};

// Its processes: the first one, and those that it has started.
class postgres_processes {
public:
    explicit postgres_processes(std::string backend_pid) : first_(parent(std::move(backend_pid))) {}

    // Seconds of the processors; also of those that have ended.
    double cpu() const {
        double ticks = 0;
        for (const auto& at : std::filesystem::directory_iterator("/proc")) {
            const std::string pid = at.path().filename().string();
            if (pid == first_ || (std::isdigit(pid.front()) != 0 && parent(pid) == first_))
                ticks += used(pid, pid == first_);
        }
        return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }

private:
    // Returns the words of proc(5) about a process behind its name, or none if it has ended.
    static std::vector<std::string> facts(const std::string& pid) {
        std::ifstream file("/proc/" + pid + "/stat");
        std::string line;
        std::getline(file, line);
        std::istringstream rest(line.substr(line.rfind(')') + 1));
        return {std::istream_iterator<std::string>(rest), {}};
    }
    static std::string parent(const std::string& pid) {
        const auto words = facts(pid);
        return words.size() > 1 ? words[1] : "";
    }
    static double used(const std::string& pid, bool with_ended_children) {
        const auto words = facts(pid);
        double sum = 0;
        for (std::size_t i = 11; i < (with_ended_children ? 15U : 13U) && i < words.size(); ++i)
            sum += std::stod(words[i]);
        return sum;
    }

    std::string first_;
};

class postgres_server : public backend {
public:
    explicit postgres_server(std::string folder)
        : folder_(std::move(folder)), admin_(folder_),
          processes_(PQgetvalue(admin_.run("select pg_backend_pid()").get(), 0, 0)) {}

    std::string name() const override { return "PostgreSQL"; }
    void clear() override {
        if (!is_ours_ && admin_.number("select count(to_regclass('timer')) +"
                                       " count(to_regnamespace('tvec'))") != 0)
            throw std::runtime_error("there is a table `timer` or a schema `tvec` in the database, "
                                     "which would go");
        is_ours_ = true;
        admin_.run("set client_min_messages = error; drop table if exists timer;"
                   "drop schema if exists tvec cascade");
    }
    double server_cpu() override { return processes_.cpu(); }
    double bytes() override {
        return admin_.number("select coalesce(pg_total_relation_size(to_regclass('timer')), 0) +"
                             " coalesce(pg_total_relation_size(to_regclass('tvec.timer')), 0)");
    }
    std::unique_ptr<store> open() override {
        postgres::install({.conninfo = conninfo(folder_)});
        return std::make_unique<postgres_store>(postgres_options{.conninfo = conninfo(folder_)});
    }
    std::unique_ptr<by_hand> connect() override {
        return std::make_unique<postgres_table>(folder_);
    }

private:
    std::string folder_;
    plain_postgres admin_;
    postgres_processes processes_;
    bool is_ours_ = false;
};

}  // namespace bench
