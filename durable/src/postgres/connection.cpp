#include "connection.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <cstring>
#include <utility>

#include "../local/printable.hpp"

namespace tvec::durable::postgres {

namespace {

constexpr int binary = 1;

// The arguments of a statement as libpq takes them.
struct arguments_of {
    explicit arguments_of(const std::vector<value>& values) {
        for (const value& v : values) {
            types.push_back(v.of);
            bytes.push_back(v.bytes ? v.bytes->data() : nullptr);
            lengths.push_back(v.bytes ? static_cast<int>(v.bytes->size()) : 0);
            formats.push_back(binary);
        }
    }
    int size() const { return static_cast<int>(types.size()); }

    std::vector<Oid> types{};
    std::vector<const char*> bytes{};
    std::vector<int> lengths{}, formats{};
};

}  // namespace

std::errc code_of(PGconn* c) {
    const bool is_refused = PQconnectionNeedsPassword(c) != 0 || PQconnectionUsedPassword(c) != 0;
    return is_refused ? std::errc::permission_denied : std::errc::connection_refused;
}

std::string first_line(std::string_view message) {
    std::string line(message.substr(0, message.find('\n')));
    while (!line.empty() && (line.back() == '.' || line.back() == ' ')) line.pop_back();
    detail::make_printable(line.data(), line.size());
    return line;
}

std::string to_primary(const std::string& conninfo) {
    const bool has_many = conninfo.find(',') != std::string::npos;
    if (!has_many || conninfo.find("target_session_attrs") != std::string::npos) return conninfo;
    const bool is_uri = conninfo.find("://") != std::string::npos;
    if (!is_uri) return conninfo + " target_session_attrs=primary";
    const char joint = conninfo.find('?') == std::string::npos ? '?' : '&';
    return conninfo + joint + "target_session_attrs=primary";
}

const char* const session_settings =
    "select set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false), "
    "set_config('default_transaction_isolation', 'read committed', false), "
    "set_config('default_transaction_read_only', 'off', false), "
    "set_config('plan_cache_mode', 'force_generic_plan', false), set_config('jit', 'off', false), "
    "set_config('client_min_messages', 'warning', false)";

std::string connection::open() {
    assert(is_closed() && "an open connection is closed before it is opened again");
    raw_ = PQconnectStart(conninfo_.c_str());
    if (raw_ == nullptr) return "no memory";
    if (PQstatus(raw_) == CONNECTION_BAD) {
        std::string why = first_line(PQerrorMessage(raw_));
        close();
        return why;
    }
    PQsetNoticeReceiver(
        raw_,
        [](void* me, const PGresult* r) {
            if (r != nullptr) static_cast<connection*>(me)->notice(*r);
        },
        this);
    watch(EPOLLOUT);
    return {};
}

void connection::close() {
    unwatch();
    if (raw_ != nullptr) PQfinish(raw_);
    forget();
}

void connection::forget() {
    raw_ = nullptr;
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    is_open_ = is_broken_ = is_in_doubt_ = false;
    in_flight_ = 0;
    current_.reset();
}

void connection::lose(trouble why) {
    close();
    listener_.lost(std::move(why));
}

// libpq opens several sockets in turn while it connects. They may have the same number. It closes
// them by itself, and one of which a forked child has a copy would then stay in the epoll set: a
// descriptor of our own is watched.
void connection::watch(std::uint32_t events) {
    const bool is_new = !is_open_;
    if (is_new) {
        unwatch();
        fd_ = fcntl(PQsocket(raw_), F_DUPFD_CLOEXEC, 0);
    }
    epoll_event e{};
    e.events = events;
    e.data.fd = fd_;
    epoll_ctl(epoll_, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd_, &e);
}

void connection::unwatch() {
    if (fd_ < 0) return;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_, nullptr);
    ::close(fd_);
    fd_ = -1;
}

void connection::go_on_connecting() {
    switch (PQconnectPoll(raw_)) {
    case PGRES_POLLING_READING:
        return watch(EPOLLIN);
    case PGRES_POLLING_WRITING:
        return watch(EPOLLOUT);
    case PGRES_POLLING_OK:
        break;
    default:
        return lose({code_of(raw_), first_line(PQerrorMessage(raw_))});
    }
    watch(EPOLLIN);
    if (PQsetnonblocking(raw_, 1) != 0 || PQenterPipelineMode(raw_) != 1)
        return lose({std::errc::not_supported, first_line(PQerrorMessage(raw_))});
    is_open_ = true;
    listener_.opened();
}

// The transaction of the statement ends at its sync. If libpq could not take both, later answers
// would be those of other statements: nothing is read any more.
void connection::end_statement(int was_sent) {
    ++in_flight_;
    if (was_sent == 1 && PQpipelineSync(raw_) == 1) return;
    is_broken_ = true;
    shutdown(fd_, SHUT_RDWR);  // the descriptor is ready from now on
}

void connection::send(const std::string& sql, const std::vector<value>& arguments) {
    assert(is_open_ && "statements are sent on an open connection");
    const arguments_of a(arguments);
    end_statement(PQsendQueryParams(raw_, sql.c_str(), a.size(), a.types.data(), a.bytes.data(),
                                    a.lengths.data(), a.formats.data(), binary));
}

void connection::prepare(const std::string& name, const std::string& sql,
                         const std::vector<Oid>& types) {
    end_statement(PQsendPrepare(raw_, name.c_str(), sql.c_str(), static_cast<int>(types.size()),
                                types.data()));
}

void connection::send_prepared(const std::string& name, const std::vector<value>& arguments) {
    assert(is_open_ && "statements are sent on an open connection");
    const arguments_of a(arguments);
    end_statement(PQsendQueryPrepared(raw_, name.c_str(), a.size(), a.bytes.data(),
                                      a.lengths.data(), a.formats.data(), binary));
}

// A fault shows when the server's side of the connection is read.
void connection::flush() {
    if (!is_open_) return;
    watch(PQflush(raw_) == 1 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void connection::on_ready() {
    if (!is_open_) return go_on_connecting();
    if (is_broken_ || PQconsumeInput(raw_) == 0)
        return lose({std::errc::connection_reset, first_line(PQerrorMessage(raw_))});
    flush();
    receive();
}

void connection::receive() {
    while (is_open_ && in_flight_ > 0 && PQisBusy(raw_) == 0) {
        result_ptr r(PQgetResult(raw_));
        if (PQstatus(raw_) == CONNECTION_BAD) {
            const char* const why = r ? PQresultErrorMessage(r.get()) : PQerrorMessage(raw_);
            return lose({std::errc::connection_reset, first_line(why)});
        }
        if (!r) continue;  // the statement has no more results
        if (PQresultStatus(r.get()) != PGRES_PIPELINE_SYNC) {
            if (PQresultStatus(r.get()) != PGRES_PIPELINE_ABORTED) current_ = std::move(r);
            continue;
        }
        --in_flight_;
        listener_.answered(std::exchange(current_, {}), std::exchange(is_in_doubt_, false));
    }
    while (is_open_) {
        struct free_notify {
            void operator()(PGnotify* n) const noexcept { PQfreemem(n); }
        };
        const std::unique_ptr<PGnotify, free_notify> n(PQnotifies(raw_));
        if (!n) return;
        listener_.notified(n->extra);
    }
}

// The only warning that changes the meaning of an answer. Its words depend on the language of the
// server, and the name of the function in it does not.
void connection::notice(const PGresult& r) {
    const char* const where = PQresultErrorField(&r, PG_DIAG_SOURCE_FUNCTION);
    if (where != nullptr && std::strcmp(where, "SyncRepWaitForLSN") == 0) is_in_doubt_ = true;
}

}  // namespace tvec::durable::postgres
