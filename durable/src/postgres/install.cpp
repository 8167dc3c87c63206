#include <libpq-fe.h>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "client.hpp"
#include "schema.hpp"

namespace tvec::durable::postgres {

namespace {

struct connection_deleter {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
using session = std::unique_ptr<PGconn, connection_deleter>;

// Does statements in their order. Returns the first value of the last answer, or "".
std::string run(const session& s, const std::string& sql) {
    const result_ptr r(PQexec(s.get(), sql.c_str()));
    const ExecStatusType status = PQresultStatus(r.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        const char* const state = PQresultErrorField(r.get(), PG_DIAG_SQLSTATE);
        const bool is_right = state != nullptr && std::string_view(state) == "42501";
        fail(is_right ? std::errc::permission_denied : std::errc::operation_not_permitted,
             "install: " + first_line(PQerrorMessage(s.get())));
    }
    const bool has_value = PQntuples(r.get()) > 0 && PQnfields(r.get()) > 0;
    return has_value ? PQgetvalue(r.get(), 0, 0) : "";
}

// Settings of functions: each finds its rows by an index, and no plan is compiled. PostgreSQL would
// compile a plan whose estimate is high, as every estimate is of a plan that it is told to avoid.
constexpr const char* by_index =
    "set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off "
    "set enable_mergejoin = off set enable_indexscan = on set enable_tidscan = on "
    "set enable_nestloop = on";

// Throws if somebody else owns the schema or anything in it. He could have his code done with the
// rights of this session, by a trigger of a table or by the body of a view.
void refuse_foreign(const session& s, const std::string& name) {
    const std::string foreign = run(
        s,
        "select o.what || o.owner::regrole from pg_namespace n cross join lateral ("
        "select 'belongs to ', n.nspowner "
        "union all select 'has a table of ', relowner from pg_class where relnamespace = n.oid "
        "union all select 'has a function of ', proowner from pg_proc where pronamespace = n.oid "
        "union all select 'has a type of ', typowner from pg_type where typnamespace = n.oid "
        "union all select 'has an operator of ', oprowner from pg_operator "
        "where oprnamespace = n.oid) o(what, owner) where n.nspname = '" +
            name + "' and o.owner <> current_user::regrole limit 1");
    if (!foreign.empty())
        fail(std::errc::permission_denied,
             "install: the schema " + name + " " + foreign + ": install as its owner");
}

std::string replaced(std::string text, const std::string& placeholder, const std::string& by) {
    for (std::size_t at = 0; (at = text.find(placeholder, at)) != text.npos; at += by.size())
        text.replace(at, placeholder.size(), by);
    return text;
}

}  // namespace

// The lock is that of the transaction. Two programs that install at once do so one after the other.
void install(const postgres_options& options) {
    const postgres_options o = checked(options);
    const session s(PQconnectdb(o.conninfo.c_str()));
    if (PQstatus(s.get()) != CONNECTION_OK)
        fail(code_of(s.get()), first_line(PQerrorMessage(s.get())));
    const std::string name = '"' + o.name + '"';
    run(s, "set client_min_messages = error");
    run(s, "set search_path = pg_catalog, pg_temp");
    run(s, "set default_transaction_read_only = off");
    run(s, "begin");
    run(s, "select pg_advisory_xact_lock(hashtextextended('tvec', 0))");
    refuse_foreign(s, o.name);
    std::string version = std::to_string(schema_version), shards = std::to_string(o.shards);
    if (run(s, "select to_regclass('" + name + ".setting') is not null") == "t") {
        version = run(s, "select version from " + name + ".setting");
        shards = run(s, "select shards from " + name + ".setting");
    }
    if (std::stoll(version) > schema_version)
        fail(std::errc::not_supported, "install: the schema " + o.name + " has version " + version +
                                           ", and this program knows " +
                                           std::to_string(schema_version) + ": take a newer tvec");
    run(s, replaced(replaced(replaced(schema, "{by_index}", by_index), "{tvec}", name), "{shards}",
                    shards));
    run(s, "insert into " + name + ".setting (version, shards) values (" +
               std::to_string(schema_version) + ", " + shards +
               ") on conflict (one) do update set version = excluded.version");
    run(s, "insert into " + name + ".shard (n) select generate_series(0, " + shards +
               " - 1) on conflict do nothing");
    run(s, "commit");
}

}  // namespace tvec::durable::postgres
