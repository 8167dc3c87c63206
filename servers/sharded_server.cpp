// The echo server on many cores, with nothing shared: each thread has a ring, a wheel and a
// listener of its own on the same port. Each connection also has a lease that another shard keeps:
// a timer on that shard's wheel, asked for and answered by message. No lock is anywhere near a
// wheel.
#include <atomic>
#include <exception>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "../support/figures.hpp"
#include "../support/program.hpp"
#include "echo_connection.hpp"
#include "leases.hpp"
#include "listener.hpp"
#include "mail.hpp"
#include "server_options.hpp"
#include "signals.hpp"
#include "tvec/drivers/uring_wait.hpp"

namespace {

using example::connection;
using example::message;
using example::time_point;
using std::chrono::milliseconds;

struct options : example::server_options {
    std::string messages = "auto";
    unsigned shards = std::max(1u, std::thread::hardware_concurrency());
    unsigned lease_ms = 500;
};

// The totals of a shard, read when its thread has ended.
struct results {
    example::echo_totals echo;
    std::uint64_t asked = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t granted = 0;
    std::size_t unanswered = 0;
    std::uint64_t mixed_up = 0;  // answers that came to a connection with another lease
    std::size_t stalls = 0;
    tvec::lateness_histogram late;      // of its timers
    tvec::lateness_histogram answered;  // of the answers it got, since the end of the lease
    std::uint64_t lost = 0;
    bool balanced = false;
    double cpu = 0;
    double seconds = 0;
};

// The first failure of any shard. It ends all the others.
class failure {
public:
    failure() {
        if (bell_.get() < 0) example::fail("cannot make an eventfd");
    }

    // In a catch: keeps what was thrown, and tells all.
    void happen() noexcept {
        if (!happened_.exchange(true)) first_ = std::current_exception();
        eventfd_write(bell_.get(), 1);
    }
    bool happened() const { return happened_; }
    // Completes once, with `tag`, when it has happened.
    void watch(example::ring& r, std::uint64_t tag) const {
        r.queue(tag, io_uring_prep_poll_add, bell_.get(), unsigned{POLLIN});
    }
    // When all have ended.
    void rethrow() const {
        if (first_) std::rethrow_exception(first_);
    }

private:
    example::descriptor bell_{eventfd(0, EFD_CLOEXEC)};  // never read: it rings for everybody
    std::atomic<bool> happened_ = false;
    std::exception_ptr first_;
};

// The state that shards share.
struct common {
    explicit common(const options& o) : office(o.shards) {}
    example::post_office office;
    failure failed;
};

class shard {
public:
    shard(unsigned self, const options& wanted, const example::listener& l, common& all,
          bool write_to_rings, example::signals* signals);

    results run();

private:
    // Small numbers tag the shard's own requests; any other tag is a message's or a connection's.
    enum own_tag : std::uint64_t { accepting = 1, signalled = 2, cancelling = 3, failing = 4 };

    struct open_connection {
        std::unique_ptr<connection> client;
        std::uint64_t lease;
    };

    void turn();
    unsigned hear();
    void complete(std::uint64_t tag, int result, bool more);
    void admit(int socket);
    std::uint64_t ask_for_lease(std::uint64_t owner);
    void send(unsigned to, const message& m);
    void read_mail();
    void read(const message& m);
    void answered(const message& m);
    void tell_others(message::kind what);
    void stop();
    bool quiet() const;
    bool over() const;
    void on_second();
    void on_end();
    results take_results();

    unsigned self_;
    unsigned shards_;
    options options_;
    const failure& failed_;
    std::mt19937 random_{self_};
    example::ring ring_{4096};
    example::timers timers_;
    tvec::uring_wait<example::timers> wait_{ring_.get(), timers_};
    example::timer_books books_{timers_};
    example::stall_watch<example::timers> stalls_{timers_, milliseconds(options_.grace_ms)};
    example::echo_home home_{ring_, books_, stalls_, milliseconds(options_.idle_ms),
                             milliseconds(options_.write_ms)};
    example::acceptor acceptor_;
    std::unique_ptr<example::mail> mail_;
    example::lease_keeper keeper_;
    example::lease_holder holder_;
    std::vector<message> inbox_;
    bool stopping_ = false;
    bool told_finished_ = false;
    bool gave_up_ = false;
    unsigned others_finished_ = 0;
    std::uint64_t mixed_up_ = 0;
    time_point started_ = example::timers::clock::now();
    time_point second_deadline_;
    time_point end_deadline_;
    tvec::timer second_{tvec::call<&shard::second_, &shard::on_second>};
    tvec::timer end_{tvec::call<&shard::end_, &shard::on_end>};
    std::unordered_map<std::uint64_t, open_connection> open_;
};

shard::shard(unsigned self, const options& wanted, const example::listener& l, common& all,
             bool write_to_rings, example::signals* signals)
    : self_(self), shards_(wanted.shards), options_(wanted), failed_(all.failed),
      acceptor_(ring_, l, accepting, true),
      keeper_(books_, static_cast<std::uint16_t>(self),
              [this](unsigned to, const message& m) { send(to, m); }),
      holder_(static_cast<std::uint16_t>(self),
              [this](unsigned to, const message& m) { send(to, m); }) {
    all.office.enter(self, ring_);
    if (write_to_rings)
        mail_ = std::make_unique<example::ring_mail>(ring_, all.office);
    else
        mail_ = std::make_unique<example::queue_mail>(ring_, all.office, self);
    failed_.watch(ring_, failing);
    if (signals != nullptr) signals->watch(ring_, signalled);
    books_.arm(second_, second_deadline_, std::chrono::seconds(1));
    books_.arm(end_, end_deadline_, std::chrono::seconds(options_.seconds));
}

results shard::run() {
    while (!over()) turn();
    books_.cancel(second_, second_deadline_);
    books_.cancel(end_, end_deadline_);
    books_.drain();
    return take_results();
}

void shard::turn() {
    wait_();
    ++home_.count.wakeups;
    stalls_.listen(ring_, [this] { return hear(); });
    timers_.wheel().advance(stalls_.heard(), 256);
    read_mail();  // what the timers have written to itself
    if (stopping_ && !told_finished_ && quiet()) {
        told_finished_ = true;
        tell_others(message::kind::finished);
    }
    mail_->flush();
}

unsigned shard::hear() {
    home_.heard = example::timers::clock::now();
    const unsigned heard = ring_.reap(
        [this](std::uint64_t tag, int result, bool more) { complete(tag, result, more); });
    read_mail();
    return heard;
}

void shard::complete(std::uint64_t tag, int result, bool more) {
    if (mail_->complete(tag, result, inbox_)) return;
    switch (tag) {
    case accepting:
        return admit(acceptor_.complete(result, more));
    case signalled:
        tell_others(message::kind::stop);
        return stop();
    case failing:
        return stop();
    case cancelling:
        return;
    default:
        break;
    }
    const auto found = open_.find(tag);
    if (found->second.client->complete(result)) return;
    holder_.cancel(found->second.lease);
    open_.erase(found);
    acceptor_.closed_one();
}

void shard::admit(int socket) {
    if (socket < 0) return;
    ++home_.count.accepted;
    auto c = std::make_unique<connection>(home_, socket);
    c->start();
    if (stopping_) c->shut_down();
    const std::uint64_t tag = c->tag();
    open_.emplace(tag, open_connection{std::move(c), ask_for_lease(tag)});
}

// --- leases and mail ----------------------------------------------------------------------------

// Of another shard, if there is one.
std::uint64_t shard::ask_for_lease(std::uint64_t owner) {
    const unsigned others = shards_ - 1;
    const unsigned keeper =
        others == 0 ? self_ : (self_ + 1 + static_cast<unsigned>(random_() % others)) % shards_;
    const auto half = static_cast<int>(options_.lease_ms / 2);
    const auto more = static_cast<int>(random_() % (options_.lease_ms + 1));
    return holder_.ask(keeper, owner, milliseconds(half + more));
}

void shard::send(unsigned to, const message& m) {
    if (to == self_)
        inbox_.push_back(m);
    else
        mail_->send(to, m);
}

// Messages that are read may make the shard write to itself.
void shard::read_mail() {
    while (!inbox_.empty()) {
        const std::vector<message> arrived = std::exchange(inbox_, {});
        for (const message& m : arrived) read(m);
    }
}

void shard::read(const message& m) {
    switch (m.what) {
    case message::kind::ask:
        return keeper_.asked(m);
    case message::kind::cancel:
        return keeper_.cancelled(m);
    case message::kind::expired:
    case message::kind::cancelled:
        return answered(m);
    case message::kind::stop:
        return stop();
    case message::kind::finished:
        ++others_finished_;
    }
}

// A connection that is still there has its lease renewed: its own, and not one of another that was
// there before.
void shard::answered(const message& m) {
    const std::uint64_t owner = holder_.answered(m);
    if (stopping_ || m.what == message::kind::cancelled) return;
    const auto found = open_.find(owner);
    if (found == open_.end()) return;
    mixed_up_ += found->second.lease != m.number;
    found->second.lease = ask_for_lease(owner);
}

void shard::tell_others(message::kind what) {
    for (unsigned to = 0; to < shards_; ++to)
        if (to != self_) send(to, {what, static_cast<std::uint16_t>(self_)});
}

// --- the end ------------------------------------------------------------------------------------

void shard::stop() {
    if (stopping_) return;
    stopping_ = true;
    books_.compare();
    acceptor_.stop(cancelling);
    for (const auto& [tag, c] : open_) c.client->shut_down();
    books_.arm(end_, end_deadline_, std::chrono::seconds(5));
}

// Asks nobody for anything any more.
bool shard::quiet() const {
    return open_.empty() && !acceptor_.accepting() && holder_.unanswered() == 0;
}

// Nobody asks it for anything any more either. After a failure nobody is waited for.
bool shard::over() const {
    if (failed_.happened() && open_.empty() && !acceptor_.accepting()) return true;
    return gave_up_ || (told_finished_ && others_finished_ == shards_ - 1 && mail_->all_sent());
}

void shard::on_end() {
    books_.fired(end_, end_deadline_);
    if (stopping_) gave_up_ = true;
    stop();
}

void shard::on_second() {
    books_.fired(second_, second_deadline_);
    for (const auto& [tag, c] : open_) c.client->look_after();
    books_.compare();
    acceptor_.accept();
    books_.arm_next(second_, second_deadline_, std::chrono::seconds(1));
}

results shard::take_results() {
    results r;
    r.echo = home_.count;
    r.asked = holder_.asked();
    r.cancelled = holder_.cancelled();
    r.granted = keeper_.granted();
    r.unanswered = holder_.unanswered();
    r.mixed_up = mixed_up_;
    r.stalls = stalls_.stalls();
    r.late = books_.late();
    r.answered = holder_.late();
    r.lost = books_.lost();
    r.balanced = books_.balanced() && holder_.balanced();
    r.cpu = example::cpu_seconds(RUSAGE_THREAD);
    r.seconds = example::seconds_of(example::timers::clock::now() - started_);
    return r;
}

// --- all of them --------------------------------------------------------------------------------

class server {
public:
    explicit server(const options& wanted);

    int run();

private:
    void serve(unsigned self);
    template <class F> void attempt(unsigned self, F work);
    std::jthread thread_of(unsigned self);
    void run_threads();
    int report();

    options options_;
    bool write_to_rings_;
    example::signals
        signals_;  // blocked here, for all threads to come; the first shard watches them
    std::vector<example::listener> listeners_;
    common common_{options_};
    std::latch ready_{options_.shards};
    std::latch over_{options_.shards};
    std::vector<results> results_{options_.shards};
};

bool writes_to_rings(const std::string& wish) {
    if (wish == "queue") return false;
    const bool can = example::rings_can_write();
    if (wish == "ring" && !can) throw std::runtime_error("rings cannot write to each other here");
    return can;
}

server::server(const options& wanted)
    : options_(wanted), write_to_rings_(writes_to_rings(wanted.messages)) {
    example::require_descriptors(options_.connections + 64 + 16 * options_.shards);
    for (unsigned i = 0; i < options_.shards; ++i) {
        listeners_.emplace_back(options_.address, options_.port, true);
        options_.port = listeners_.front().port();
    }
}

// A ring is made in the thread that uses it, and lives until nobody writes to it any more.
void server::serve(unsigned self) {
    std::optional<shard> s;
    attempt(self, [&] {
        s.emplace(self, options_, listeners_[self], common_, write_to_rings_,
                  self == 0 ? &signals_ : nullptr);
    });
    ready_.arrive_and_wait();
    if (s) attempt(self, [&] { results_[self] = s->run(); });
    over_.arrive_and_wait();
}

// A shard that has failed answers nobody, and takes no more clients.
template <class F> void server::attempt(unsigned self, F work) try { work(); } catch (...) {
    common_.failed.happen();
    listeners_[self].refuse();
}

int server::run() {
    run_threads();
    common_.failed.rethrow();
    return report();
}

std::jthread server::thread_of(unsigned self) try {
    return std::jthread([this, self] { serve(self); });
} catch (const std::system_error& e) {
    throw std::system_error(e.code(), "cannot start a thread");
}

// The threads are joined whatever happens, and none waits for one that could not be had.
void server::run_threads() {
    std::vector<std::jthread> threads;
    try {
        threads.reserve(options_.shards);
        for (unsigned i = 0; i < options_.shards; ++i) threads.push_back(thread_of(i));
        ready_.wait();
        if (!common_.failed.happened()) listeners_.front().announce(options_.port_file);
    } catch (...) {
        common_.failed.happen();
        const auto missing = static_cast<std::ptrdiff_t>(options_.shards - threads.size());
        ready_.count_down(missing);
        over_.count_down(missing);
    }
}

bool sound(const results& r) {
    return r.balanced && r.echo.leaked() == 0 && r.unanswered == 0 && r.mixed_up == 0 &&
           r.lost == 0 && r.late.early() == 0 && r.answered.early() == 0;
}

void print(const std::string& name, results& r) {
    using example::print_line;
    fmt::print("{}\n", name);
    print_line("connections",
               fmt::format("{} accepted, {} leaked, {} idle, {} stalled", r.echo.accepted,
                           r.echo.leaked(), r.echo.idle_closes, r.echo.write_closes));
    print_line("echoes", fmt::format("{}, {:.0f}/s", r.echo.echoes,
                                     static_cast<double>(r.echo.echoes) / r.seconds));
    print_line("not read", fmt::format("{} of these", r.echo.unread));
    print_line("leases asked for",
               fmt::format("{}: {} expired, {} cancelled, {} unanswered, {} mixed up", r.asked,
                           r.answered.count(), r.cancelled, r.unanswered, r.mixed_up));
    print_line("leases kept", r.granted);
    print_line("answers after the end",
               fmt::format("{}; {} early", example::spread(r.answered), r.answered.early()));
    print_line("timers",
               fmt::format("{} fires, {} early, {} lost, books {}", r.late.count(), r.late.early(),
                           r.lost, r.balanced ? "balanced" : "NOT BALANCED"));
    print_line("lateness", example::spread(r.late));
    print_line("stalls", r.stalls);
    print_line("CPU time, wake-ups", fmt::format("{:.2f} s, {:.0f}/s", r.cpu,
                                                 static_cast<double>(r.echo.wakeups) / r.seconds));
}

int server::report() {
    bool fine = true;
    std::uint64_t echoes = 0, asked = 0, granted = 0;
    double rate = 0;
    fmt::print("\nserver, {} shards, messages by {}\n", options_.shards,
               write_to_rings_ ? "IORING_OP_MSG_RING" : "queues and eventfds");
    for (unsigned i = 0; i < options_.shards; ++i) {
        results& r = results_[i];
        print(fmt::format("shard {}, {:.1f} s", i, r.seconds), r);
        fine &= sound(r);
        echoes += r.echo.echoes;
        asked += r.asked;
        granted += r.granted;
        rate += static_cast<double>(r.echo.echoes) / r.seconds;
    }
    fmt::print("all shards\n");
    example::print_line("echoes", fmt::format("{}, {:.0f}/s", echoes, rate));
    example::print_line("leases", fmt::format("{} asked for, {} kept", asked, granted));
    return fine && asked == granted ? 0 : 1;
}

options parse(int argc, char** argv) {
    options o;
    example::command_line line{
        "The TCP echo server on many cores: a ring, a wheel and a listener per thread, and "
        "timers on other\nshards' wheels by message. Ends on SIGINT, SIGTERM or after "
        "--seconds, with a summary for each\nshard; exits non-zero if a timer or an answer "
        "came early or was lost, or a connection leaked.",
        "sharded_server"};
    example::add_server_options(line, o);
    line.add_choice("--messages", o.messages, {"auto", "ring", "queue"},
                    "how shards write to each other: ring, queue, or auto, which is ring where the "
                    "kernel can");
    line.add_number("--shards", o.shards, 1, 64, "threads");
    line.add_number(
        "--lease-ms", o.lease_ms, 1, 86'400'000,
        "mean length of a lease, in ms; each is picked from half to one and a half of it");
    line.parse_or_exit(argc, argv);
    return o;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("sharded_server", [&] {
        server s(parse(argc, argv));
        return s.run();
    });
}
