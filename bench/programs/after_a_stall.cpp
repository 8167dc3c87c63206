// Counts the clients that a server closes after a stall, though they talk in time: on Asio, with a
// steady_timer for each session, and with timers on a wheel. Every client says a byte whenever 70 %
// of the idle limit have passed since its last one, also while a callback blocks the loop for
// longer than the limit. A client that this machine kept from talking in time is not counted.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>  // Boost 1.81 forgets it
#include <vector>

#include <boost/asio.hpp>
#include <fmt/format.h>

#include "../../examples/support/command_line.hpp"
#include "../../examples/support/program.hpp"
#include "../report/machine.hpp"
#include "tvec/guests/asio_guest.hpp"

namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using socket_type = asio::local::stream_protocol::socket;

struct load {
    int clients;
    milliseconds limit, stop;
    steady_clock::time_point begin = steady_clock::now();
    steady_clock::time_point end() const { return begin + limit + stop + limit; }
};

class asio_timer {
public:
    explicit asio_timer(asio::io_context& io) : timer_(io) {}
    template <class F> void arm(milliseconds limit, F on_limit) {
        timer_.expires_after(limit);  // cancels the wait before
        // A wait that has ended is not cancelled by a later limit: Asio's own example asks, too.
        timer_.async_wait([this, on_limit](boost::system::error_code error) {
            if (!error && timer_.expiry() <= steady_clock::now()) on_limit();
        });
    }
    void cancel() { timer_.cancel(); }

private:
    asio::steady_timer timer_;
};

using guest = tvec::asio_guest<asio::io_context>;

class wheel_timer {
public:
    explicit wheel_timer(guest& timers) : timers_(timers) {}
    template <class F> void arm(milliseconds limit, F on_limit) {
        if (!on_limit_) on_limit_ = on_limit;
        timers_->arm_after(timer_, limit);
    }
    void cancel() { timer_.cancel(); }

private:
    void fire() { on_limit_(); }

    guest& timers_;
    std::function<void()> on_limit_;
    tvec::timer timer_{tvec::call<&wheel_timer::timer_, &wheel_timer::fire>};
};

// Closes a client that is silent for the limit.
template <class Timer> class session {
public:
    template <class Timers>
    session(asio::io_context& io, Timers& timers, int fd, milliseconds limit)
        : socket_(io, asio::local::stream_protocol(), fd), timer_(timers), limit_(limit) {
        read();
    }
    bool was_closed() const { return was_closed_; }

private:
    void read() {
        timer_.arm(limit_, [this] {
            was_closed_ = true;
            socket_.close();
        });
        socket_.async_read_some(asio::buffer(word_), [this](auto error, std::size_t) {
            if (error)
                timer_.cancel();
            else if (!was_closed_)
                read();
        });
    }

    socket_type socket_;
    Timer timer_;
    milliseconds limit_;
    std::array<char, 16> word_{};
    bool was_closed_ = false;
};

struct talker {
    int fd;
    steady_clock::time_point next, last;
    bool was_late = false;
};

void talk(std::vector<talker>& all, const load& load) {
    while (steady_clock::now() < load.end()) {
        for (talker& t : all) {
            const auto now = steady_clock::now();
            if (now < t.next) continue;
            t.was_late = t.was_late || now - t.last > load.limit * 9 / 10;
            send(t.fd, "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            t.last = now;
            t.next = now + load.limit * 7 / 10;
        }
        std::this_thread::sleep_for(1ms);
    }
}

struct outcome {
    int closed = 0, late = 0;
};

template <class Timer, class Timers>
outcome serve(asio::io_context& io, Timers& timers, load load) {
    std::vector<std::unique_ptr<session<Timer>>> sessions;
    std::vector<talker> talkers;
    std::mt19937 random(1);
    for (int i = 0; i < load.clients; ++i) {
        std::array<int, 2> ends{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
            throw std::runtime_error("no more sockets: take fewer --clients, or raise ulimit -n");
        sessions.push_back(std::make_unique<session<Timer>>(io, timers, ends[0], load.limit));
        const auto first = load.limit * static_cast<int>(random() % 700) / 1000;
        const auto now = steady_clock::now();
        talkers.push_back({ends[1], now + first, now});
    }
    load.begin = steady_clock::now();
    std::thread clients([&] { talk(talkers, load); });
    asio::steady_timer blocks(io, load.begin + load.limit);
    blocks.async_wait([&](auto) { std::this_thread::sleep_for(load.stop); });
    asio::steady_timer over(io, load.end());
    over.async_wait([&](auto) { io.stop(); });
    io.run();
    clients.join();
    outcome seen;
    for (std::size_t i = 0; i < sessions.size(); ++i) {
        seen.late += talkers[i].was_late;
        seen.closed += sessions[i]->was_closed() && !talkers[i].was_late;
        close(talkers[i].fd);
    }
    return seen;
}

outcome by_asio(const load& load) {
    asio::io_context io;
    return serve<asio_timer>(io, io, load);
}
outcome by_guest(const load& load) {
    asio::io_context io;
    guest timers(io);
    return serve<wheel_timer>(io, timers, load);
}

// Two descriptors a client.
void allow_descriptors() {
    rlimit most{};
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

int run(int argc, char** argv) {
    int clients = 2100, limit_ms = 4000, stop_ms = 5000;
    std::string csv;
    example::command_line line{
        "Counts the clients that a server on Asio closes after its loop was blocked, though they "
        "talk\nin time: with a steady_timer for each session, and with tvec::asio_guest.",
        "after_a_stall"};
    line.add_number("--clients", clients, 1, 100'000, "clients that talk");
    line.add_number("--limit", limit_ms, 20, 60'000, "ms of silence after which one is closed");
    line.add_number("--stop", stop_ms, 0, 60'000, "ms for which a callback blocks the loop");
    line.add_text("--csv", csv, "write this CSV to this file, too");
    line.parse_or_exit(argc, argv);
    allow_descriptors();
    const load asked{clients, milliseconds(limit_ms), milliseconds(stop_ms)};
    std::optional<example::output_file> file;
    if (!csv.empty()) file.emplace(csv);
    const auto say = [&](const std::string& text) {
        fmt::print("{}\n", text);
        example::flush_output();
        if (file) fmt::print(file->get(), "{}\n", text);
    };
    say("# " + bench::machine());
    say("timers,clients,limit_ms,stop_ms,closed,kept_from_talking");
    const auto row = [&](const char* name, const outcome& seen) {
        say(fmt::format("{},{},{},{},{},{}", name, clients, limit_ms, stop_ms, seen.closed,
                        seen.late));
    };
    row("steady_timer", by_asio(asked));
    const outcome on_wheel = by_guest(asked);
    row("asio_guest", on_wheel);
    if (file) file->finish();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("after_a_stall", [&] { return run(argc, argv); });
}
