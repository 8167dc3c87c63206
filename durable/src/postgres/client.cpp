#include "client.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "schema.hpp"

namespace tvec::durable::postgres {

namespace {

using std::chrono::steady_clock;

// The pause before a request for a locked timer is repeated.
constexpr duration short_pause{20};
constexpr int oldest = 14;

bool is_identifier(const std::string& name) {
    const auto is_right = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    return !name.empty() && name.size() <= 40 && std::ranges::all_of(name, is_right);
}

struct parts_deleter {
    void operator()(PQconninfoOption* parts) const noexcept { PQconninfoFree(parts); }
};

// Returns true if a part of a connection string is what it should be.
bool is_sound(const PQconninfoOption& part) {
    const std::string_view name = part.keyword, value = part.val == nullptr ? "" : part.val;
    return name != "port" || value.find_first_not_of("0123456789,") == value.npos;
}

// Returns true if the text of a URI has a bare `@` behind the one before the host, and before the
// options. A password that has an `@` or a `/` of its own ends there, and its rest becomes a part
// of another kind. In a name such an `@` is `%40`.
bool has_bare_at(std::string_view uri) {
    uri = uri.substr(0, uri.find('?'));
    const std::size_t begin = uri.find("://") + 3,
                      slash = std::min(uri.find('/', begin), uri.size());
    const std::size_t at = uri.find('@', begin);
    return at < uri.size() && (at > slash || uri.find('@', at + 1) != uri.npos);
}

bool is_readable(const std::string& conninfo) {
    const std::unique_ptr<PQconninfoOption, parts_deleter> all(
        PQconninfoParse(conninfo.c_str(), nullptr));
    const bool is_uri = conninfo.find("://") != conninfo.npos;
    const PQconninfoOption* part = all.get();
    while (part != nullptr && part->keyword != nullptr && is_sound(*part)) ++part;
    return part != nullptr && part->keyword == nullptr && !(is_uri && has_bare_at(conninfo));
}

bool is_error(const PGresult& r) {
    const ExecStatusType s = PQresultStatus(&r);
    return s != PGRES_TUPLES_OK && s != PGRES_COMMAND_OK;
}

std::string message_of(const PGresult& r) {
    const char* const text = PQresultErrorField(&r, PG_DIAG_MESSAGE_PRIMARY);
    return first_line(text != nullptr ? text : PQresultErrorMessage(&r));
}

// Returns a fault of the greeting in words that say what to do.
trouble trouble_of(const PGresult& r, const std::string& schema_name) {
    const char* const field = PQresultErrorField(&r, PG_DIAG_SQLSTATE);
    const std::string_view state = field == nullptr ? "" : field;
    const std::string why = message_of(r);
    if (state == "42501")
        return {std::errc::permission_denied,
                why + ": run `grant usage on schema " + schema_name +
                    " to ROLE; grant execute on all functions in schema " + schema_name +
                    " to ROLE`"};
    if (state == "3F000" || state == "42883" || state == "42P01")
        return {std::errc::not_supported, "the database has no schema " + schema_name +
                                              " of this version (" + why +
                                              "): run `tvec-timers --store postgres:... install`"};
    return {std::errc::not_supported, why};
}

constexpr const char* is_unsafe =
    "fsync is off, and a power cut loses or damages all timers: have it say on";
constexpr const char* is_behind =
    "synchronous_commit is off: a power cut loses what the last second has stored";

// Returns a statement that calls a function of the schema.
std::string call_of(const postgres_options& o, std::string_view function, std::size_t arguments) {
    std::string sql = "select * from " + function_name(o, function) + '(';
    for (std::size_t n = 1; n <= arguments; ++n) sql += (n == 1 ? "$" : ", $") + std::to_string(n);
    return sql + ')';
}

std::size_t weight_of(const question_for& q) {
    std::size_t sum = 0;
    for (const value& v : q.arguments) sum += v.bytes ? v.bytes->size() : 0;
    return sum;
}

}  // namespace

void fail(std::errc code, const std::string& what) {
    throw std::system_error(std::make_error_code(code), "postgres_store: " + what);
}

postgres_options checked(postgres_options o) {
    if (!is_identifier(o.name))
        fail(std::errc::invalid_argument,
             "a name is 1 to 40 lower-case letters, digits and underscores");
    if (!is_readable(o.conninfo))  // the words of libpq have parts of it
        fail(std::errc::invalid_argument,
             "the connection string cannot be read: expected KEY=VALUE ..., or "
             "postgresql://USER@HOST/DATABASE with %40 for @ and %2F for / in a password");
    if (o.shards == 0 || o.shards >= 10'000)
        fail(std::errc::invalid_argument, "shards are 1 to 9999");
    const auto check = [](const char* option, duration d, duration least) {
        detail::require_duration("postgres_store", std::string("postgres_options::") + option, d,
                                 least);
    };
    check("claim_ahead", o.claim_ahead, duration(0));
    check("silence", o.silence, duration(1));
    check("slowest", o.slowest, duration(1));
    return o;
}

std::string function_name(const postgres_options& o, std::string_view function) {
    return ('"' + o.name + "\".").append(function);
}

// After a flight of several requests the next one gathers for a moment at least, whatever the disk
// of the server does.
client::client(postgres_options o)
    : options_(checked(std::move(o))), me_("tvec_" + detail::name_of_process(options_.terms)),
      maker_(getpid()), link_(*this, events_.wheel(), faults_,
                              {.silence = options_.silence, .gathering = duration(1)}),
      talk_(events_.fd(), to_primary(options_.conninfo),
            {[this] { greet(); },
             [this](result_ptr r, bool is_in_doubt) { on_answer(std::move(r), is_in_doubt); },
             [this](trouble why) { link_.lose(std::move(why)); },
             [this](std::string_view payload) {
                 if (hint_) hint_(payload);
             }}) {
    wait_until_ready();
}

client::~client() {
    if (!is_ours()) talk_.forget();
}

bool client::is_ours() const noexcept { return getpid() == maker_; }

void client::listen(std::function<void(std::string_view)> hint, std::function<void()> reconnected) {
    hint_ = std::move(hint);
    reconnected_ = std::move(reconnected);
}

void client::wait_until_ready() {
    const auto limit = steady_clock::now() + options_.silence;
    for (link_.connect(); !link_.is_ready(); receive()) {
        if (link_.fault()) link_.fault()->raise("postgres_store");
        if (!events_.wait_until(limit)) fail(std::errc::timed_out, "the server does not answer");
    }
}

std::optional<trouble> client::open() {
    std::string fault = talk_.open();
    if (fault.empty()) return std::nullopt;
    return trouble(std::errc::connection_refused, std::move(fault));
}

void client::on_soon() {
    for (const auto& then : std::exchange(later_, {})) then();
}

// --- the greeting -------------------------------------------------------------------------------

// Passes the result of the statement that was sent last to `then`. An error ends this connection.
void client::expect(greeted then) {
    link_.expect([this, then = std::move(then)](fate, const PGresult* r) {
        if (!is_error(*r)) return then(*r);
        link_.lose(trouble_of(*r, options_.name));
    });
}

void client::say(const std::string& sql, const std::vector<value>& arguments, greeted then) {
    talk_.send(sql, arguments);
    expect(std::move(then));
}

void client::greet() {
    say("select pg_backend_pid(), current_setting('server_version_num')::int, "
        "pg_is_in_recovery()::int, (current_setting('fsync') = 'off')::int, "
        "(current_setting('synchronous_commit') = 'off')::int",
        {}, [this](const PGresult& r) { on_facts(r); });
    talk_.flush();
}

// The first facts are judged before anything is set: behind a pooler the session is somebody
// else's.
void client::on_facts(const PGresult& r) {
    row facts(r, 0);
    const auto pid = facts.integer(), version = facts.integer();
    const bool is_standby = facts.integer() != 0, is_unsynced = facts.integer() != 0;
    const bool is_lazy = facts.integer() != 0;
    if (!facts.is_whole()) return link_.lose({std::errc::protocol_error, "it is no PostgreSQL"});
    if (pid != talk_.backend_pid())
        return link_.lose({std::errc::not_supported,
                           "a pooler is in between, which gives the session to others as well: "
                           "connect to the server itself"});
    if (version / 10'000 < oldest)
        return link_.lose(
            {std::errc::not_supported,
             "it is PostgreSQL " + std::to_string(version / 10'000) + ": 14 or later is needed"});
    if (is_standby)
        return link_.lose({std::errc::operation_not_permitted,
                           "it is a standby: connect to its primary, or name all hosts"});
    if (is_unsynced) return link_.lose({std::errc::operation_not_permitted, is_unsafe});
    warning_ = is_lazy ? is_behind : "";
    prepare_all();
}

// A statement may take a little less than the time for which the client waits.
void client::prepare_all() {
    const auto statement_limit =
        std::to_string(std::max<long long>(options_.silence.count() * 4 / 5, 1));
    const auto ignore = [](const PGresult&) {};
    say(session_settings, {text(statement_limit), text("100")}, ignore);
    say("listen \"" + me_ + '"', {}, ignore);
    say(call_of(options_, "opened", 0), {}, [this](const PGresult& r) { on_opened(r); });
    talk_.flush();
}

void client::on_opened(const PGresult& r) {
    row opened(r, 0);
    const bool is_there = PQntuples(&r) == 1;
    const auto version = is_there ? opened.integer() : 0, shards = is_there ? opened.integer() : 0;
    if (version != schema_version)
        return link_.lose(
            {std::errc::not_supported,
             "the schema " + options_.name + " has version " + std::to_string(version) +
                 ", and this program knows " + std::to_string(schema_version) +
                 (version < schema_version ? ": run `tvec-timers --store postgres:... install`"
                                           : ": take a newer tvec")});
    if (shards < 1 || shards >= 10'000 || (shards_ != 0 && shards != shards_))
        return link_.lose(
            {std::errc::not_supported, "its timers are in " + std::to_string(shards) + " shards"});
    shards_ = static_cast<unsigned>(shards);
    learn(opened.integer());
    for (const prepared& p : all_prepared) {
        std::vector<Oid> types;
        for (const char* letter = p.types; *letter != '\0'; ++letter)
            types.push_back(oid_of(*letter));
        talk_.prepare(std::string(p.function), call_of(options_, p.function, types.size()), types);
        expect([this, is_last = &p == std::end(all_prepared) - 1](const PGresult&) {
            if (is_last) on_ready();
        });
    }
    talk_.flush();
}

void client::on_ready() {
    assert(shards_ > 0 && "a server that is ready has told its shards");
    if (link_.become_ready() && reconnected_) reconnected_();
}

// --- asking and answers -------------------------------------------------------------------------

void client::ask(question_for q, answer then) {
    const std::size_t bytes = weight_of(q), items = q.items;
    link_.ask(std::move(q), bytes, items, std::move(then));
}

void client::ask_later(std::function<void()> then) {
    later_.push_back(std::move(then));
    if (soon_.pending()) return;
    events_.wheel().arm_after(soon_, short_pause);
    events_.rearm();
}

void client::notice_queue(bool is_half_full) {
    if (is_half_full && !is_queue_half_full_)
        faults_.last =
            "the queue of notifications is half full, and none is sent: timers that other "
            "programs put are up to ten seconds late. A session that listens is in a "
            "transaction: end it (see xact_start in pg_stat_activity)";
    is_queue_half_full_ = is_half_full;
}

void client::judge(bool commits_are_synced, bool is_synced, bool others_differ) {
    warning_ = detail::all_warnings(commits_are_synced ? "" : is_behind, others_differ);
    if (!is_synced) link_.lose({std::errc::operation_not_permitted, is_unsafe});
}

void client::on_answer(result_ptr r, bool is_in_doubt) {
    const auto p = link_.take();
    assert(p && "the server answers statements and nothing else");
    if (!r) {
        if (!p->is_greeting) p->then(fate::lost, nullptr);
        return link_.lose({std::errc::protocol_error, "a statement has no result"});
    }
    if (p->is_greeting) return p->then(fate::replied, r.get());
    if (is_error(*r)) {
        note(message_of(*r));
        return p->then(fate::refused, r.get());
    }
    if (is_in_doubt) note("a commit did not wait for its standbys");
    is_in_doubt ? p->then(fate::lost, nullptr) : p->then(fate::replied, r.get());
}

// --- the loop -----------------------------------------------------------------------------------

void client::receive() {
    events_.run([this](int fd, std::uint32_t) {
        if (fd != talk_.fd() || talk_.is_closed()) return;
        link_.hear();
        talk_.on_ready();
    });
}

void client::send(const question_for& q) {
    if (std::ranges::find(all_prepared, q.function, &prepared::function) != std::end(all_prepared))
        talk_.send_prepared(std::string(q.function), q.arguments);
    else
        talk_.send(call_of(options_, q.function, q.arguments.size()), q.arguments);
}

void client::flush() {
    link_.flush();
    events_.rearm();
}

void client::leave() {
    if (!link_.is_ready()) return;
    talk_.send_prepared("leaves", {text(me_)});
    talk_.flush();
}

}  // namespace tvec::durable::postgres
