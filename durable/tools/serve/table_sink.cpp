// Deliveries as rows of the table `ready` in PostgreSQL, for workers that call tvec.next.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../src/postgres/connection.hpp"
#include "../../support/open_store.hpp"
#include "batch_sink.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

class table_sink final : public batch_sink {
public:
    table_sink(loop& in, const settings& o, completion answered)
        : batch_sink(in, o, std::move(answered)),
          server_(epoll_.get(), postgres::to_primary(example::postgres_at(o.store).conninfo),
                  {[this] { on_opened(); },
                   [this](postgres::result_ptr r, bool) { on_answer(r.get()); },
                   [this](const postgres::trouble& t) { broken("table: " + t.why); },
                   [](std::string_view) {}}) {
        if (epoll_.get() < 0) example::fail("epoll_create1");
        in.watch(epoll_.get(), EPOLLIN, [this](auto) { on_ready(); });
        try_to_connect();
    }
    ~table_sink() override { in_.forget(epoll_.get()); }

    void look_through(shown show) override {
        if (!is_connected() || show_) return;
        show_ = std::move(show);
        shown_up_to_ = 0;
        look_now();
    }

private:
    // The statement that an answer belongs to.
    enum class question { settings, batch, look, page };
    static constexpr std::int64_t rows_together = 500;

    void connect() override {
        const std::string fault = server_.open();
        if (!fault.empty()) broken("table: " + fault);
    }
    void disconnect() override {
        server_.close();
        show_ = {};
    }

    // A statement waits for a lock on the table until the server counts as silent.
    void on_opened() {
        asked_ = question::settings;
        server_.send(postgres::session_settings, {postgres::text("0"), postgres::text("0")});
        server_.flush();
    }

    void send(const std::vector<delivery>& batch) override {
        asked_ = question::batch;
        make_ready(batch);
    }
    void look() override {
        if (show_) return ask_page();
        asked_ = question::look;
        make_ready({});
    }
    // The rows that no worker has taken, some at a time.
    void ask_page() {
        asked_ = question::page;
        server_.send("select n, id, attempt from tvec.shows_ready($1, $2)",
                     {postgres::big(shown_up_to_), postgres::big(rows_together)});
        server_.flush();
    }
    void make_ready(const std::vector<delivery>& batch) {
        postgres::array ids(postgres::type::bytes), attempts(postgres::type::big);
        for (const delivery& d : batch) {
            ids.add(d.token.id);
            attempts.add(d.token.attempt);
        }
        server_.send("select tvec.make_ready($1, $2)", {ids.whole(), attempts.whole()});
        server_.flush();
    }

    void on_ready() {
        epoll_event ready{};
        if (epoll_wait(epoll_.get(), &ready, 1, 0) == 1) server_.on_ready();
    }

    void on_answer(const PGresult* r) {
        if (PQresultStatus(r) != PGRES_TUPLES_OK)
            return broken("table: " + postgres::first_line(PQresultErrorMessage(r)));
        if (asked_ == question::settings) return look();
        asked_ == question::page ? on_page(r) : on_count(asked_, r);
        if (show_) look_now();
    }
    void on_count(question what, const PGresult* r) {
        postgres::row answer(*r, 0);
        const auto there = static_cast<std::size_t>(answer.integer());
        if (what == question::batch) return took(there);
        counted(there);
        connected();
    }
    void on_page(const PGresult* r) {
        heard();
        const int rows = PQntuples(r);
        for (int i = 0; i < rows; ++i) {
            postgres::row line(*r, i);
            shown_up_to_ = line.integer();
            token t{std::string(line.bytes())};
            t.attempt = static_cast<std::uint32_t>(line.integer());
            if (!line.is_whole()) return broken("table: an answer is not as it should be");
            show_(t, false);
        }
        if (rows < rows_together) show_ = {};
        flush();
    }

    example::descriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
    postgres::connection server_;
    question asked_ = question::settings;
    shown show_;  // empty: no look through the rows is under way
    std::int64_t shown_up_to_ = 0;
};

}  // namespace

std::unique_ptr<sink> open_table(loop& in, const settings& o, sink::completion answered) {
    if (!example::is_postgres(o.store))
        throw std::runtime_error("--to table: the table is in the database of the store, which is "
                                 "none: expected --store postgres:...");
    return std::make_unique<table_sink>(in, o, std::move(answered));
}

}  // namespace timers_tool
