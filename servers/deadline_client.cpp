// A client that gets by with a server that drops and delays answers. Each call has a deadline;
// until then it is sent again, after pauses that double and are jittered, so that callers who have
// failed together do not come back together. A heartbeat finds out when the server has gone. All of
// it is timers on one wheel, beside one io_uring.
#include <deque>
#include <random>

#include <fmt/format.h>

#include "../support/command_line.hpp"
#include "../support/program.hpp"
#include "flaky_server.hpp"
#include "signals.hpp"
#include "stalls.hpp"

namespace {

using example::datagram;
using example::time_point;
using std::chrono::milliseconds;

struct options {
    unsigned callers = 200;
    unsigned seconds = 5;
    unsigned deadline_ms = 500;
    example::flaws server;
};

struct totals {
    std::uint64_t calls = 0;
    std::uint64_t answered = 0;
    std::uint64_t expired = 0;
    std::uint64_t retries = 0;
    std::uint64_t too_late = 0;  // answers after the deadline, or second ones
    std::uint64_t beats = 0;
    std::uint64_t beats_answered = 0;
    std::uint64_t server_gone = 0;
    std::uint64_t server_back = 0;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t not_sent = 0;  // the kernel would not
};

class client;

// Makes one call after another.
class caller {
public:
    caller(client& home, std::uint64_t index) : client_(home), index_(index) {}

    void start(milliseconds pause);
    void complete_send() { sending_ = false; }
    void answered(std::uint64_t number);
    bool done() const { return !calling_ && !sending_; }
    void look_after();

private:
    static constexpr milliseconds first_pause{20}, longest_pause{160};

    void on_start();
    void on_retry();
    void on_deadline();
    void send();
    void finish();
    milliseconds backoff();

    client& client_;
    std::uint64_t index_;
    datagram request_{};
    bool calling_ = false;
    bool sending_ = false;  // the kernel reads the request
    unsigned attempt_ = 0;
    time_point start_deadline_;
    time_point retry_deadline_;
    time_point deadline_deadline_;
    tvec::timer start_{tvec::call<&caller::start_, &caller::on_start>};
    tvec::timer retry_{tvec::call<&caller::retry_, &caller::on_retry>};
    tvec::timer deadline_{tvec::call<&caller::deadline_, &caller::on_deadline>};
};

// Asks again and again whether the server is there; whatever comes from it says so.
class heartbeat {
public:
    explicit heartbeat(client& home) : client_(home) {}

    void start();
    void heard();
    void stop();
    void complete_send() { sending_ = false; }
    bool done() const { return !sending_; }

private:
    static constexpr milliseconds period{50}, patience{200};

    void on_beat();
    void on_silence();

    client& client_;
    datagram request_{datagram::kind::heartbeat, 0};
    bool there_ = true;
    bool sending_ = false;
    example::second_chance chance_;
    time_point beat_deadline_;
    time_point silence_deadline_;
    tvec::timer beat_{tvec::call<&heartbeat::beat_, &heartbeat::on_beat>};
    tvec::timer silence_{tvec::call<&heartbeat::silence_, &heartbeat::on_silence>};
};

class client {
public:
    client(const options& wanted, example::descriptor socket);

    void run();
    int report(const example::server_totals& server);

    // Used by callers and the heartbeat.
    static constexpr std::uint64_t heart = 1ull << 32;  // the tag of its sends

    void send(std::uint64_t tag, const datagram& d);
    example::timer_books& books() { return books_; }
    const example::stall_watch<example::timers>& stalls() const { return stalls_; }
    totals& count() { return totals_; }
    tvec::lateness_histogram& answer_times() { return answer_times_; }
    bool stopping() const { return stopping_; }
    milliseconds deadline() const { return milliseconds(options_.deadline_ms); }
    milliseconds between(milliseconds least, milliseconds most);

private:
    // Sends of callers are tagged with their index.
    enum own_tag : std::uint64_t { receiving = heart + 1, signalled };

    void turn();
    void complete(std::uint64_t tag, int result);
    void sent(std::uint64_t tag, int result);
    void received(const datagram& d);
    bool all_done() const;
    void on_end();
    bool balanced(const example::server_totals& server) const;

    options options_;
    example::descriptor socket_;
    std::mt19937 random_{11};
    example::ring ring_{1024};
    example::timers timers_;
    tvec::uring_wait<example::timers> wait_{ring_.get(), timers_};
    example::timer_books books_{timers_};
    example::stall_watch<example::timers> stalls_{timers_, milliseconds(500)};
    example::receiver receiver_{ring_, socket_.get(), receiving};
    example::signals signals_;
    tvec::lateness_histogram answer_times_;
    totals totals_;
    bool stopping_ = false;
    time_point end_deadline_;
    tvec::timer end_{tvec::call<&client::end_, &client::on_end>};
    heartbeat heartbeat_{*this};
    std::deque<caller> callers_;
};

// --- caller -------------------------------------------------------------------------------------

void caller::start(milliseconds pause) { client_.books().arm(start_, start_deadline_, pause); }

void caller::on_start() {
    client_.books().fired(start_, start_deadline_);
    if (client_.stopping()) return;
    if (sending_) return start(milliseconds(1));  // the last request has not left
    ++client_.count().calls;
    calling_ = true;
    attempt_ = 0;
    request_ = {datagram::kind::call, index_ | (client_.count().calls << 32)};
    client_.books().arm(deadline_, deadline_deadline_, client_.deadline());
    send();
}

void caller::send() {
    sending_ = true;
    client_.send(index_, request_);
    client_.books().arm(retry_, retry_deadline_, backoff());
}

// 20 ms, 40, 80, 160, 160 ..., of which the second half is left to chance.
milliseconds caller::backoff() {
    const milliseconds whole =
        std::min(first_pause * (1u << std::min(attempt_, 8u)), longest_pause);
    ++attempt_;
    return client_.between(whole / 2, whole);
}

void caller::on_retry() {
    client_.books().fired(retry_, retry_deadline_);
    if (sending_) return client_.books().arm(retry_, retry_deadline_, milliseconds(1));
    ++client_.count().retries;
    send();
}

void caller::on_deadline() {
    client_.books().fired(deadline_, deadline_deadline_);
    ++client_.count().expired;
    finish();
}

// After the deadline it is no answer, though the timer that says so may not have run yet: the clock
// decides, and not what is handled first. That we were away ourselves is nothing to who called.
void caller::answered(std::uint64_t number) {
    const time_point now = example::timers::clock::now();
    if (!calling_ || number != request_.number || now >= deadline_deadline_) {
        ++client_.count().too_late;
        return;
    }
    ++client_.count().answered;
    client_.answer_times().record(now - (deadline_deadline_ - client_.deadline()));
    finish();
}

// A timer that has fired is not pending, and cancelling it does nothing.
void caller::finish() {
    calling_ = false;
    client_.books().cancel(retry_, retry_deadline_);
    client_.books().cancel(deadline_, deadline_deadline_);
    start(client_.between(milliseconds(0), milliseconds(50)));
}

void caller::look_after() {
    client_.books().look_after(start_, start_deadline_);
    client_.books().look_after(retry_, retry_deadline_);
    client_.books().look_after(deadline_, deadline_deadline_);
}

// --- heartbeat ----------------------------------------------------------------------------------

void heartbeat::start() {
    client_.books().arm(beat_, beat_deadline_, period);
    client_.books().arm(silence_, silence_deadline_, patience);
}

void heartbeat::heard() {
    if (!there_) ++client_.count().server_back;
    there_ = true;
    chance_.renew();
    client_.books().arm(silence_, silence_deadline_, patience);  // a push-back: one store
}

void heartbeat::on_beat() {
    client_.books().fired(beat_, beat_deadline_);
    if (!sending_) {
        sending_ = true;
        ++client_.count().beats;
        client_.send(client::heart, request_);
    }
    client_.books().arm_next(beat_, beat_deadline_, period);
}

void heartbeat::on_silence() {
    client_.books().fired(silence_, silence_deadline_);
    if (chance_.take(client_.stalls()))  // perhaps it was not the server that was silent
        return client_.books().arm(silence_, silence_deadline_, client_.stalls().grace());
    there_ = false;
    ++client_.count().server_gone;
}

void heartbeat::stop() {
    client_.books().cancel(beat_, beat_deadline_);
    client_.books().cancel(silence_, silence_deadline_);
}

// --- client -------------------------------------------------------------------------------------

client::client(const options& wanted, example::descriptor socket)
    : options_(wanted), socket_(std::move(socket)) {
    signals_.watch(ring_, signalled);
    heartbeat_.start();
    for (std::uint64_t i = 0; i < options_.callers; ++i)
        callers_.emplace_back(*this, i).start(between(milliseconds(0), milliseconds(100)));
    books_.arm(end_, end_deadline_, std::chrono::seconds(options_.seconds));
}

milliseconds client::between(milliseconds least, milliseconds most) {
    const auto span = static_cast<std::uint64_t>((most - least).count()) + 1;
    return least + milliseconds(static_cast<int>(random_() % span));
}

void client::send(std::uint64_t tag, const datagram& d) {
    ++totals_.sent;
    ring_.queue(tag, io_uring_prep_send, socket_.get(), &d, sizeof d, MSG_NOSIGNAL);
}

// Calls under way at the end are waited for: their deadlines see to it that this takes no time.
void client::run() {
    while (!stopping_ || !all_done()) turn();
    for (caller& c : callers_) c.look_after();
    receiver_.stop();
    while (receiver_.in_flight()) turn();
    heartbeat_.stop();
    books_.cancel(end_, end_deadline_);
    books_.drain();
}

bool client::all_done() const {
    return heartbeat_.done() &&
           std::all_of(callers_.begin(), callers_.end(), [](const caller& c) { return c.done(); });
}

void client::turn() {
    wait_();
    stalls_.listen(ring_, [this] {
        return ring_.reap([this](std::uint64_t tag, int result, bool) { complete(tag, result); });
    });
    timers_.wheel().advance(stalls_.heard(), 256);
}

void client::complete(std::uint64_t tag, int result) {
    if (tag == receiving)
        return receiver_.complete(result, [this](const datagram& d) { received(d); });
    if (tag == signalled)
        stopping_ = true;
    else
        sent(tag, result);
}

void client::sent(std::uint64_t tag, int result) {
    totals_.not_sent += result < 0;
    if (tag == heart)
        heartbeat_.complete_send();
    else
        callers_[tag].complete_send();
}

void client::received(const datagram& d) {
    ++totals_.received;
    heartbeat_.heard();
    if (d.what == datagram::kind::heartbeat)
        ++totals_.beats_answered;
    else
        callers_[d.number & 0xFFFF'FFFF].answered(d.number);
}

void client::on_end() {
    books_.fired(end_, end_deadline_);
    stopping_ = true;
}

// --- what it says -------------------------------------------------------------------------------

// Returns whether all messages sent and received are accounted for, on both sides. Only the kernel
// may lose some in between, when a socket's buffer is full.
bool client::balanced(const example::server_totals& server) const {
    const totals& t = totals_;
    return t.calls == t.answered + t.expired && t.sent == t.calls + t.retries + t.beats &&
           t.received == t.answered + t.too_late + t.beats_answered &&
           server.received <= t.sent - t.not_sent && t.received <= server.answered &&
           server.balanced();
}

int client::report(const example::server_totals& server) {
    using example::print_line;
    const totals& t = totals_;
    const auto ms = [](std::chrono::nanoseconds d) { return static_cast<double>(d.count()) / 1e6; };
    fmt::print("client, {} callers\n", options_.callers);
    print_line("calls", fmt::format("{}: {} answered, {} expired", t.calls, t.answered, t.expired));
    print_line("retries", fmt::format("{}, {} answers too late or twice", t.retries, t.too_late));
    print_line("answered after",
               fmt::format("p50 {:.1f} ms, p99 {:.1f} ms, max {:.1f} ms",
                           ms(answer_times_.quantile(0.5)), ms(answer_times_.quantile(0.99)),
                           ms(answer_times_.max())));
    print_line("heartbeats", fmt::format("{}, {} answered; server gone {} times, back {} times",
                                         t.beats, t.beats_answered, t.server_gone, t.server_back));
    print_line("timers", fmt::format("{} armed, {} cancelled, {} fires, {} early, {} lost",
                                     books_.armed(), books_.cancelled(), books_.late().count(),
                                     books_.late().early(), books_.lost()));
    print_line("server",
               fmt::format("{} received: {} answered, {} dropped, {} slept through, {} still held",
                           server.received, server.answered, server.dropped, server.slept_through,
                           server.undelivered));
    print_line("lost on the way", t.sent - server.received + server.answered - t.received);
    const bool fine = balanced(server) && books_.sound() && answer_times_.max() < deadline();
    print_line("books", fine ? "balanced" : "NOT BALANCED");
    const bool served = t.answered > 0 || options_.server.drop == 1;
    return fine && served ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "Calls with deadlines, retries and a heartbeat, to a server on the loopback that "
        "drops and delays\nanswers, and sleeps at times. Ends after --seconds or on SIGINT; "
        "exits non-zero if the books of\ncalls, datagrams and timers do not balance.",
        "deadline_client"};
    line.add_number("--callers", o.callers, 1, 10'000, "callers, each with one call at a time");
    line.add_number("--seconds", o.seconds, 1, 3600, "how long to go on, in seconds");
    line.add_number("--deadline-ms", o.deadline_ms, 1, 60'000,
                    "a call that takes longer has failed, in ms");
    line.add_number("--drop", o.server.drop, 0, 1, "share of datagrams that the server drops");
    line.add_number("--delay", o.server.delay, 0, 1, "share of answers that it delays");
    line.parse_or_exit(argc, argv);
    return o;
}

int run(const options& o) {
    auto [mine, servers] = example::connected_sockets();
    client c(o, std::move(mine));  // blocks the signals, for all threads to come
    example::flaky_server server(std::move(servers), o.server);
    c.run();
    return c.report(server.stop());
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("deadline_client", [&] { return run(parse(argc, argv)); });
}
