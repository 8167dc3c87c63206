#include "client.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <initializer_list>
#include <memory>
#include <system_error>
#include <utility>

#include "schema.hpp"

namespace tvec::durable::postgres {

namespace {

using std::chrono::steady_clock;

// The pause before a request for a locked timer is repeated.
constexpr duration short_pause{20};
constexpr std::size_t full_flight = 16'384;
constexpr int oldest = 14;

bool is_identifier(const std::string& name) {
    const auto is_right = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    return !name.empty() && name.size() <= 40 && std::ranges::all_of(name, is_right);
}

int open_epoll(std::initializer_list<int> watched) {
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        throw std::system_error(errno, std::system_category(), "postgres_store: epoll_create1");
    for (const int each : watched) {
        epoll_event e{};
        e.events = EPOLLIN;
        e.data.fd = each;
        epoll_ctl(fd, EPOLL_CTL_ADD, each, &e);
    }
    return fd;
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

client::client(postgres_options o)
    : options_(checked(std::move(o))), me_("tvec_" + detail::name_of_process(options_.terms)),
      maker_(getpid()), epoll_(open_epoll({bell_.fd(), alarm_.fd()})),
      talk_(epoll_, to_primary(options_.conninfo),
            {[this] { greet(); },
             [this](result_ptr r, bool is_in_doubt) { on_answer(std::move(r), is_in_doubt); },
             [this](trouble why) { on_lost(std::move(why)); },
             [this](std::string_view payload) {
                 if (hint_) hint_(payload);
             }}) {
    try {
        wait_until_ready();
    } catch (...) {
        talk_.close();
        close(epoll_);
        throw;
    }
}

client::~client() {
    if (!is_ours()) talk_.forget();
    talk_.close();
    close(epoll_);
}

bool client::is_ours() const noexcept { return getpid() == maker_; }

void client::listen(std::function<void(std::string_view)> hint, std::function<void()> reconnected) {
    hint_ = std::move(hint);
    reconnected_ = std::move(reconnected);
}

// --- connecting ---------------------------------------------------------------------------------

void client::wait_until_ready() {
    const auto limit = steady_clock::now() + options_.silence;
    connect();
    for (; !is_ready_; receive()) {
        if (trouble_) fail(trouble_->code, trouble_->why);
        const auto left = std::chrono::ceil<duration>(limit - steady_clock::now());
        if (left <= duration::zero()) fail(std::errc::timed_out, "the server does not answer");
        pollfd ready{epoll_, POLLIN, 0};
        poll(&ready, 1, static_cast<int>(left.count()));
        if (trouble_) fail(trouble_->code, trouble_->why);
    }
}

void client::connect() {
    trouble_.reset();
    wheel_.arm_after(silence_, options_.silence);
    const std::string fault = talk_.open();
    if (!fault.empty()) on_lost({std::errc::connection_refused, fault});
}

void client::retry() { wheel_.arm_after(retry_, back_off_.next(options_.slowest)); }

void client::on_silence() {
    talk_.close();
    on_lost({std::errc::timed_out, "the server does not answer"});
}

void client::on_soon() {
    for (const auto& then : std::exchange(later_, {})) then();
}

void client::on_lost(trouble why) {
    if (is_ready_) ++broken_[detail::reason_of(std::make_error_code(why.code))];
    talk_.close();
    silence_.cancel();
    is_ready_ = false;
    failure_ = why.why;
    trouble_ = std::move(why);
    retry();
    abandon();
}

// Statements in flight may have been done or not.
void client::abandon() {
    const auto unanswered = std::exchange(pending_, {});
    const auto unsent = std::exchange(unsent_, {});
    unsent_bytes_ = 0;
    flights_ = 0;
    for (const pending& p : unanswered)
        if (!p.is_greeting) p.then(fate::lost, nullptr);
    for (const queued& q : unsent) q.who.then(fate::refused, nullptr);
}

// --- the greeting -------------------------------------------------------------------------------

// Passes the result of the statement that was sent last to `then`. An error ends this connection.
void client::expect(greeted then) {
    const answer on_result = [this, then = std::move(then)](fate, const PGresult* r) {
        if (!is_error(*r)) return then(*r);
        on_lost(trouble_of(*r, options_.name));
    };
    pending_.push_back({on_result, steady_clock::now(), true, false});
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
    if (!facts.is_whole()) return on_lost({std::errc::protocol_error, "it is no PostgreSQL"});
    if (pid != talk_.backend_pid())
        return on_lost({std::errc::not_supported,
                        "a pooler is in between, which gives the session to others as well: "
                        "connect to the server itself"});
    if (version / 10'000 < oldest)
        return on_lost(
            {std::errc::not_supported,
             "it is PostgreSQL " + std::to_string(version / 10'000) + ": 14 or later is needed"});
    if (is_standby)
        return on_lost({std::errc::operation_not_permitted,
                        "it is a standby: connect to its primary, or name all hosts"});
    if (is_unsynced) return on_lost({std::errc::operation_not_permitted, is_unsafe});
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
        return on_lost(
            {std::errc::not_supported,
             "the schema " + options_.name + " has version " + std::to_string(version) +
                 ", and this program knows " + std::to_string(schema_version) +
                 (version < schema_version ? ": run `tvec-timers --store postgres:... install`"
                                           : ": take a newer tvec")});
    if (shards < 1 || shards >= 10'000 || (shards_ != 0 && shards != shards_))
        return on_lost(
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
    is_ready_ = true;
    back_off_.reset();
    if (std::exchange(was_ready_, true) && reconnected_) reconnected_();
}

// --- asking and answers -------------------------------------------------------------------------

void client::ask(question_for q, answer then) {
    if (!is_ready_) return refuse(std::move(then));
    unsent_bytes_ += weight_of(q);
    unsent_.push_back({std::move(q), {std::move(then), {}, false, false}});
    touch();
}

void client::refuse(answer then) {
    refused_.push_back(std::move(then));
    touch();
}

void client::ask_later(std::function<void()> then) {
    later_.push_back(std::move(then));
    if (soon_.pending()) return;
    wheel_.arm_after(soon_, short_pause);
    alarm_.rearm();
}

void client::touch(std::size_t waiting) {
    if (has_rung_ || !(may_send(waiting) || !refused_.empty())) return;
    has_rung_ = true;
    bell_();
}

void client::learn(std::int64_t us) {
    clock_.learn(reading(std::chrono::microseconds(us)), asked_, steady_clock::now());
}

void client::notice_queue(bool is_half_full) {
    if (is_half_full && !is_queue_half_full_)
        failure_ = "the queue of notifications is half full, and none is sent: timers that other "
                   "programs put are up to ten seconds late. A session that listens is in a "
                   "transaction: end it (see xact_start in pg_stat_activity)";
    is_queue_half_full_ = is_half_full;
}

void client::judge(bool commits_are_synced, bool is_synced, bool others_differ) {
    warning_ = detail::all_warnings(commits_are_synced ? "" : is_behind, others_differ);
    if (!is_synced) on_lost({std::errc::operation_not_permitted, is_unsafe});
}

void client::on_answer(result_ptr r, bool is_in_doubt) {
    assert(!pending_.empty() && "the server answers statements and nothing else");
    const pending p = std::move(pending_.front());
    pending_.pop_front();
    if (pending_.empty())
        silence_.cancel();
    else
        wheel_.arm_after(silence_, options_.silence);
    asked_ = p.asked;
    if (p.ends_flight) --flights_;
    if (!r) return on_lost({std::errc::protocol_error, "a statement has no result"});
    if (p.is_greeting) return p.then(fate::replied, r.get());
    if (is_error(*r)) {
        failure_ = message_of(*r);
        return p.then(fate::refused, r.get());
    }
    if (is_in_doubt) failure_ = "a commit did not wait for its standbys";
    is_in_doubt ? p.then(fate::lost, nullptr) : p.then(fate::replied, r.get());
}

// --- the loop -----------------------------------------------------------------------------------

void client::receive() {
    epoll_event events[4];
    const int n = epoll_wait(epoll_, events, 4, 0);
    for (int i = 0; i < n; ++i) {
        const int fd = events[i].data.fd;
        if (fd == alarm_.fd()) {
            alarm_.acknowledge();
        } else if (fd == bell_.fd()) {
            bell_.acknowledge();
            has_rung_ = false;
        } else if (fd == talk_.fd() && !talk_.is_closed()) {
            if (silence_.pending()) wheel_.arm_after(silence_, options_.silence);
            talk_.on_ready();
        }
    }
    wheel_.run();
    alarm_.rearm();
}

// Statements that are sent together are a flight. Requests wait for the answers of the last flight,
// because a server takes less time for few large statements than for many small ones. After a
// flight of several requests the next one gathers for a moment at least, whatever the disk of the
// server does. A second flight is sent once it is full, which keeps both sides busy.
bool client::may_send(std::size_t waiting) const {
    if (flights_ == 0 && !gathering_.pending()) return true;
    return flights_ < 2 && unsent_bytes_ + waiting >= full_flight;
}

void client::send(const question_for& q) {
    if (std::ranges::find(all_prepared, q.function, &prepared::function) != std::end(all_prepared))
        talk_.send_prepared(std::string(q.function), q.arguments);
    else
        talk_.send(call_of(options_, q.function, q.arguments.size()), q.arguments);
}

void client::flush() {
    if (may_send() && !unsent_.empty()) {
        std::size_t items = 0;
        for (queued& q : std::exchange(unsent_, {})) {
            items += q.what.items;
            q.who.asked = steady_clock::now();
            send(q.what);
            pending_.push_back(std::move(q.who));
        }
        unsent_bytes_ = 0;
        pending_.back().ends_flight = true;
        ++flights_;
        if (items > 1) wheel_.arm_after(gathering_, duration(1));
        talk_.flush();
    }
    if (!pending_.empty() && !silence_.pending()) wheel_.arm_after(silence_, options_.silence);
    for (const answer& then : std::exchange(refused_, {})) then(fate::refused, nullptr);
    alarm_.rearm();
}

void client::leave() {
    if (!is_ready_) return;
    talk_.send_prepared("leaves", {text(me_)});
    talk_.flush();
}

}  // namespace tvec::durable::postgres
