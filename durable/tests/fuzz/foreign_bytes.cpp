// Fuzzes what reads bytes of others: plans and notes of earlier deliveries, messages to the socket
// of a served file, answers of a hook, values of PostgreSQL. The first byte says which.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../src/engine/plan.hpp"
#include "../../src/postgres/answers.hpp"
#include "../../tools/local_socket.hpp"
#include "../../tools/serve/hook_answer.hpp"
#include "support/divergence.hpp"
#include "tvec/durable/calendar.hpp"

namespace {

using namespace tvec::durable;
using support::expect;

// --- plans --------------------------------------------------------------------------------------

void read_retries(const detail::retry_policy& r) {
    for (const std::uint32_t failures : {1U, 2U, 60U, UINT32_MAX})
        for (const double luck : {0.0, 1.0}) {
            const duration delay = detail::delay_after(r, failures, luck);
            const auto most = static_cast<double>(r.longest.count()) * (1 + r.jitter) + 1;
            expect(delay >= duration::zero() && static_cast<double>(delay.count()) <= most,
                   "a delay of ", delay.count(), " after ", failures);
        }
}

// The next time must be the next one of every moment before it.
void read_times(const std::string& text, time_point after) {
    const auto next = first_time(text, next_time, after);
    if (!next) return;
    expect(*next > after && *next <= latest_due, text, ": ", next->time_since_epoch().count());
    expect(first_time(text, next_time, *next - duration(1)) == next, text, ": skips");
}

void read_plan(const std::string& text) {
    const history h = history::parse(text);
    expect(history::parse(to_text(h)) == h, "notes differ: ", to_text(h));
    std::string_view reason = text;
    expect(detail::take_delay(reason) <= detail::longest, "a delay of ", text);
    expect(detail::line_of(reason).size() <= longest_reason, "a long line of ", text);
    static_cast<void>(detail::retries_of(text));
    if (!plan_fault(text, next_time).empty()) return;
    if (const auto plan = detail::parsed(text); plan.retry) read_retries(*plan.retry);
    for (const std::int64_t ms : {0LL, 1'793'000'000'000LL, 253'402'300'799'000LL})
        read_times(text, time_point(duration(ms)));
}

// --- messages -----------------------------------------------------------------------------------

// Calls a function that may refuse its bytes.
template <class Read> void read_or_refuse(Read read) try {
    read();
} catch (const support::divergence&) {
    throw;
} catch (const std::exception&) {
}

void read_stream(const std::string& bytes) {
    read_or_refuse([&] {
        std::string left = bytes;
        while (const auto message = timers_tool::take_message(left))
            expect(bytes.ends_with(timers_tool::framed(*message) + left), "a false message");
    });
}

void read_message(const std::string& bytes) {
    std::optional<timers_tool::settings> asked;
    read_or_refuse([&] { asked = timers_tool::from_message(bytes); });
    if (!asked) return;
    const auto latest = static_cast<std::uint64_t>(latest_due.time_since_epoch().count());
    expect(asked->limit >= 1 && asked->limit <= 1'000'000'000, "a limit of ", asked->limit);
    expect(asked->every_ms <= latest / 2 && asked->in_ms.value_or(0) <= latest / 2 &&
               asked->due_ms.value_or(0) <= latest,
           "a time of ", asked->every_ms, ", ", asked->in_ms, " or ", asked->due_ms);
    const std::string again = timers_tool::to_message(*asked);
    expect(timers_tool::to_message(timers_tool::from_message(again)) == again, "a false message");
}

// --- answers of a hook --------------------------------------------------------------------------

// Where the hook listens: a name without a file.
class hook {
public:
    hook() {
        sockaddr_un name{AF_UNIX, {}};
        socklen_t size = sizeof name;
        const auto family = static_cast<socklen_t>(sizeof name.sun_family);  // the kernel names it
        expect(bind(fd_, reinterpret_cast<const sockaddr*>(&name), family) == 0, "bind");
        expect(listen(fd_, 1) == 0, "listen");
        expect(getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size) == 0, "getsockname");
        name_.assign(name.sun_path + 1, size - family - 1);
    }
    const std::string& name() const { return name_; }

    // Answers the request that has come, if it has. Returns its connection, or -1.
    int answer(const std::string& bytes) const {
        const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) return -1;
        const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        expect(sent == static_cast<ssize_t>(bytes.size()), "send");
        shutdown(fd, SHUT_WR);
        return fd;
    }

private:
    const int fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    std::string name_;
};

std::size_t append(char* bytes, std::size_t, std::size_t size, void* to) {
    static_cast<std::string*>(to)->append(bytes, size);
    return size;
}

CURLcode ask_hook(CURL* easy, const std::string& answer, std::string& body) {
    static const hook at;
    curl_easy_setopt(easy, CURLOPT_URL, "http://localhost/");
    curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, at.name().c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &append);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
    CURLM* const multi = curl_multi_init();
    curl_multi_add_handle(multi, easy);
    int running = 1, left = 0, far = -1;
    while (curl_multi_perform(multi, &running) == CURLM_OK && running != 0) {
        if (far < 0) far = at.answer(answer);
        curl_multi_poll(multi, nullptr, 0, 1, nullptr);
    }
    const CURLMsg* const end = curl_multi_info_read(multi, &left);
    const CURLcode how = end == nullptr ? CURLE_GOT_NOTHING : end->data.result;
    curl_multi_remove_handle(multi, easy);
    curl_multi_cleanup(multi);
    if (far >= 0) close(far);
    return how;
}

void judge_hook(CURL* easy, const std::string& answer) {
    using enum timers_tool::sink_answer::kind;
    std::string body;
    const CURLcode how = ask_hook(easy, answer, body);
    const auto means = timers_tool::meaning_of(how, easy, body);
    const bool is_pause = means.in >= duration(1'000) && means.in <= latest_due - earliest_due;
    expect(means.what != again || is_pause, "again in ", means.in.count());
    expect((means.what == failed) == !means.reason.empty(), "a reason: ", means.reason);
    expect(how == CURLE_OK || means.what == failed, "no answer, and it is done");
    const auto wait = timers_tool::wait_of(easy);
    expect(!wait || (wait->count() >= 0 && *wait <= detail::longest), "a wait");
    static_cast<void>(timers_tool::has_stray_body(easy));
    static_cast<void>(timers_tool::text_of(easy, body));
}

void read_answer(const std::string& answer) {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(),
                                                                   &curl_easy_cleanup);
    judge_hook(easy.get(), answer);
}

// --- values of PostgreSQL -----------------------------------------------------------------------

// Makes a result of one row: a length and bytes for each column, and null for a long one.
postgres::result_ptr row_of(std::string_view cells) {
    postgres::result_ptr r(PQmakeEmptyPGresult(nullptr, PGRES_TUPLES_OK));
    std::vector<std::string> texts;
    std::vector<int> lengths;
    while (!cells.empty() && texts.size() < 16) {
        const auto length = static_cast<unsigned char>(cells[0]);
        cells.remove_prefix(1);
        lengths.push_back(
            length == 255 ? -1 : static_cast<int>(std::min<std::size_t>(length, cells.size())));
        texts.emplace_back(cells.substr(0, length == 255 ? 0 : length));
        cells.remove_prefix(texts.back().size());
    }
    char name[] = "column";
    std::vector<PGresAttDesc> columns(texts.size(), PGresAttDesc{name, 0, 0, 1, 0, 0, 0});
    if (texts.empty()) return r;
    PQsetResultAttrs(r.get(), static_cast<int>(columns.size()), columns.data());
    for (std::size_t i = 0; i < texts.size(); ++i)
        PQsetvalue(r.get(), 0, static_cast<int>(i), lengths[i] < 0 ? nullptr : texts[i].data(),
                   lengths[i]);
    return r;
}

void look_at(time_point due) {
    expect(due >= earliest_due && due <= latest_due, "a deadline at ",
           due.time_since_epoch().count());
}
void look_at(const stored_timer& t) {
    look_at(t.due);
    expect(t.every >= duration::zero() && t.due + t.every >= t.due, "a period of ",
           t.every.count());
}

// Reads the row in one way. What is read must be in its range, whatever the row has.
template <class Read> void read_as(const PGresult& result, Read read) {
    postgres::row r(result, 0);
    read(&r);
}

void read_values(const std::string& cells) {
    const auto result = row_of(cells);
    if (PQntuples(result.get()) == 0) return;
    const auto as = [&](auto read) { read_as(*result, read); };
    as([](postgres::row* r) { look_at(postgres::listed_timer(*r)); });
    as([](postgres::row* r) {
        std::vector<claimed> all(1);
        postgres::read_claimed(all, 0, r);
        look_at(all[0].timer);
    });
    as([](postgres::row* r) {
        std::vector<end_reply> all(1);
        postgres::read_end(all, 0, r);
        if (all[0].next) look_at(*all[0].next);
    });
    as([](postgres::row* r) {
        std::vector<place> all;
        postgres::read_place(all, 0, r);
        for (const place& p : all) look_at(p.due);
    });
    as([](postgres::row* r) {
        std::size_t n = 0;
        postgres::read_pair(n, 0, r);
        expect(n <= 1'000'000'000'000'000'000, n, " processes");
    });
    as([](postgres::row* r) { static_cast<void>(postgres::read_put(r)); });
    if (const auto hint = postgres::hint_of(cells)) look_at(hint->due);
}

using reader = void (*)(const std::string&);
constexpr reader readers[] = {read_plan, read_message, read_answer, read_values, read_stream};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) try {
    if (size > 0) readers[data[0] % std::size(readers)](std::string(data + 1, data + size));
    return 0;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::abort();
}
