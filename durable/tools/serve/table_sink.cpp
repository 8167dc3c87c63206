// Deliveries as rows of the table `ready` in PostgreSQL, for workers that call tvec.next.
#include <libpq-fe.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "../../support/open_store.hpp"
#include "batch_sink.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

struct result_deleter {
    void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result = std::unique_ptr<PGresult, result_deleter>;

std::string hex_of(std::string_view bytes) {
    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const char c : bytes) {
        text += digits[static_cast<unsigned char>(c) >> 4];
        text += digits[static_cast<unsigned char>(c) & 15];
    }
    return text;
}

// Returns an array of PostgreSQL as text. `element` writes one of it.
template <class F> std::string array_of(const std::vector<delivery>& all, F element) {
    std::string text = "{";
    for (const delivery& d : all) text.append(text.size() == 1 ? "" : ",").append(element(d));
    return text + "}";
}

class table_sink final : public batch_sink {
public:
    table_sink(loop& in, const settings& o, completion answered)
        : batch_sink(in, o, std::move(answered)), where_(example::postgres_at(o.store).conninfo) {
        try_to_connect();
    }
    ~table_sink() override { disconnect(); }

private:
    void connect() override {
        db_ = PQconnectStart(where_.c_str());
        if (db_ == nullptr) throw std::bad_alloc();
        if (PQstatus(db_) == CONNECTION_BAD) return broken(why());
        PQsetnonblocking(db_, 1);
        watch(EPOLLOUT);
    }
    void disconnect() override {
        watch(0);
        if (db_ != nullptr) PQfinish(std::exchange(db_, nullptr));
        is_open_ = has_answer_ = false;
    }

    void send(const std::vector<delivery>& batch) override {
        const auto id_of = [](const delivery& d) { return "\"\\\\x" + hex_of(d.token.id) + '"'; };
        const auto attempt_of = [](const delivery& d) { return std::to_string(d.token.attempt); };
        const std::string ids = array_of(batch, id_of);
        const std::string attempts = array_of(batch, attempt_of);
        const char* const values[] = {ids.c_str(), attempts.c_str()};
        is_batch_ = true;
        if (PQsendQueryParams(db_, "select tvec.make_ready($1, $2)", 2, nullptr, values, nullptr,
                              nullptr, 0) != 1)
            return broken(why());
        push();
    }
    void look() override {
        is_batch_ = false;
        if (PQsendQuery(db_, "select tvec.make_ready('{}', '{}')") != 1) return broken(why());
        push();
    }

    // Sends what libpq holds, as far as the socket takes it.
    void push() {
        const int left = PQflush(db_);
        if (left < 0) return broken(why());
        watch(left == 0 ? EPOLLIN : EPOLLIN | EPOLLOUT);
    }

    void on_ready(std::uint32_t events) {
        if (!is_open_) return on_opening();
        if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && PQconsumeInput(db_) != 1)
            return broken(why());
        push();
        while (db_ != nullptr && PQisBusy(db_) == 0) {
            const result r(PQgetResult(db_));
            if (r && PQresultStatus(r.get()) != PGRES_TUPLES_OK) return broken(why());
            if (r) {
                there_ = std::stoul(PQgetvalue(r.get(), 0, 0));
                has_answer_ = true;
            } else if (std::exchange(has_answer_, false)) {
                on_answer();
            } else {
                break;
            }
        }
    }

    // libpq may take another socket in between.
    void on_opening() {
        const PostgresPollingStatusType next = PQconnectPoll(db_);
        if (next == PGRES_POLLING_FAILED) return broken(why());
        watch(0);
        if (next != PGRES_POLLING_OK)
            return watch(next == PGRES_POLLING_READING ? EPOLLIN : EPOLLOUT);
        is_open_ = true;
        watch(EPOLLIN);
        look();
    }

    void on_answer() {
        if (is_batch_) return took(there_);
        counted(there_);
        connected();
    }

    // Watches the socket for these events; 0: no longer.
    void watch(std::uint32_t events) {
        const int fd = events == 0 ? -1 : PQsocket(db_);
        if (watched_ >= 0 && watched_ != fd) in_.forget(std::exchange(watched_, -1));
        if (fd < 0) return;
        if (watched_ == fd) return in_.change(fd, events);
        in_.watch(fd, events, [this](std::uint32_t ready) { on_ready(ready); });
        watched_ = fd;
    }

    std::string why() const {
        const std::string text = PQerrorMessage(db_);
        return "table: " + text.substr(0, text.find('\n'));
    }

    const std::string where_;
    PGconn* db_ = nullptr;
    int watched_ = -1;
    std::size_t there_ = 0;  // rows, by the last answer
    bool is_open_ = false, is_batch_ = false, has_answer_ = false;
};

}  // namespace

std::unique_ptr<sink> open_table(loop& in, const settings& o, sink::completion answered) {
    if (!example::is_postgres(o.store))
        throw std::runtime_error("--to table: the table is in the database of the store, which is "
                                 "none: expected --store postgres:...");
    return std::make_unique<table_sink>(in, o, std::move(answered));
}

}  // namespace timers_tool
