// Pacing: each of many flows sends a packet when its time has come, in one loop that spins. The
// same flows on tvec's wheel, on a heap, a tree and a plain wheel of slots. Exits with 1 if a
// packet leaves early, or if some do not leave.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "support/command_line.hpp"
#include "support/descriptors.hpp"
#include "support/figures.hpp"
#include "support/program.hpp"
#include "tvec/extra/lateness_histogram.hpp"
#include "tvec/tvec.hpp"

namespace {

using std::chrono::nanoseconds;
using time_point = std::chrono::steady_clock::time_point;
struct options {
    std::size_t flows = 10'000;
    unsigned packets = 10, tick = 1;
    double seconds = 0.5;
    std::vector<std::string> with{"wheel", "heap", "tree", "slots"};
    bool udp = false, simulated = false;
};

using spinning = tvec::turn_clock<tvec::tsc_clock>;
// A clock that the test moves.
struct simulated : std::chrono::steady_clock {
    static time_point now() noexcept { return now_; }
    static void begin_turn() noexcept {}
    static void end_turn() noexcept {}
    static inline time_point now_{};
};

// A socket that sends to itself. Nobody reads from it: the kernel drops what is too much.
example::descriptor loopback() {
    example::descriptor made(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const a = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (bind(made.get(), a, size) != 0 || getsockname(made.get(), a, &size) != 0 ||
        connect(made.get(), a, size) != 0)
        example::fail("a socket on the loopback");
    return made;
}

struct flow;
// Fires flows when they are due.
struct pacer {
    virtual ~pacer() = default;
    virtual void arm(flow& f) = 0;
    virtual bool run() = 0;  // returns whether anything was sent
    void send(flow& f);
    time_point now() const { return is_test ? simulated::now() : tvec::tsc_clock::now(); }
    tvec::lateness_histogram late;
    example::descriptor socket;
    bool is_test = false;
};

struct flow {
    void on_due() { home->send(*this); }
    tvec::timer timer{tvec::call<&flow::timer, &flow::on_due>};
    time_point due;
    nanoseconds interval{};
    pacer* home = nullptr;
    tvec::jiffies tick = 0;  // for the plain wheel, as `next`
    flow* next = nullptr;
};

// Sends all packets that are due: a timer fires once in a tick, and an interval may be shorter.
void pacer::send(flow& f) {
    constexpr char packet[64]{};
    const time_point at = now();
    do {
        late.record(at - f.due);
        if (socket.get() >= 0) ::send(socket.get(), packet, sizeof packet, MSG_DONTWAIT);
        f.due += f.interval;  // from the time that was meant: the rate holds however late it was
    } while (f.due <= at);
    arm(f);
}

template <class Clock> struct on_wheel : pacer {
    explicit on_wheel(nanoseconds tick) : timers(tvec::runtime_tick_clock<Clock>(tick)) {}
    void arm(flow& f) override { timers.arm_at(f.timer, f.due); }
    bool run() override { return timers.run().fired != 0; }
    tvec::clocked_wheel<tvec::runtime_tick_clock<Clock>> timers;
};

// A flow leaves them before it sends.
struct heap {
    void put(flow& f) { entries.emplace(f.due, &f); }
    time_point first() const { return entries.top().first; }
    flow& take() {
        flow& f = *entries.top().second;
        entries.pop();
        return f;
    }
    using entry = std::pair<time_point, flow*>;
    std::priority_queue<entry, std::vector<entry>, std::greater<>> entries;
};
struct tree {
    void put(flow& f) {
        if (left.empty()) return void(entries.emplace(f.due, &f));
        left.key() = f.due;
        entries.insert(std::move(left));
    }
    time_point first() const { return entries.begin()->first; }
    flow& take() { return *(left = entries.extract(entries.begin())).mapped(); }
    std::multimap<time_point, flow*> entries;
    std::multimap<time_point, flow*>::node_type left;  // of the flow that sends
};

template <class Clock, class Order> struct in_order : pacer {
    void arm(flow& f) override { order.put(f); }
    bool run() override {
        Clock::begin_turn();
        const auto before = late.count();
        while (order.first() <= Clock::now()) send(order.take());  // it holds all other flows
        return late.count() != before;
    }
    Order order;
};

// A slot for each of 2^18 ticks. Flows of later laps stay in theirs.
template <class Clock> struct on_slots : pacer {
    explicit on_slots(nanoseconds tick) : ticks(tick), slots(1 << 18) {}
    void arm(flow& f) override {
        f.tick = std::max(ticks.ceil(f.due), at + 1);
        put(f);
    }
    void put(flow& f) { f.next = std::exchange(slots[f.tick % slots.size()], &f); }
    bool run() override {
        Clock::begin_turn();
        const auto before = late.count();
        for (const tvec::jiffies until = ticks.now(); at < until;) {
            flow* f = std::exchange(slots[++at % slots.size()], nullptr);
            while (f != nullptr) {
                flow& first = *std::exchange(f, f->next);
                first.tick <= at ? send(first) : put(first);
            }
        }
        return late.count() != before;
    }
    tvec::runtime_tick_clock<Clock> ticks;
    tvec::jiffies at = 0;
    std::vector<flow*> slots;
};

template <class Clock> std::unique_ptr<pacer> make(const std::string& with, nanoseconds tick) {
    if (with == "heap") return std::make_unique<in_order<Clock, heap>>();
    if (with == "tree") return std::make_unique<in_order<Clock, tree>>();
    if (with == "slots") return std::make_unique<on_slots<Clock>>(tick);
    return std::make_unique<on_wheel<Clock>>(tick);
}

bool pace(const options& o, const std::string& with) {
    const nanoseconds tick = std::chrono::microseconds(o.tick), step(500);
    const auto p = o.simulated ? make<simulated>(with, tick) : make<spinning>(with, tick);
    p->is_test = o.simulated;
    if (o.udp) p->socket = loopback();
    std::mt19937 random(7);
    std::uniform_real_distribution share(0.5, 1.5);
    std::vector<flow> flows(o.flows);
    const time_point start = p->now() + std::chrono::milliseconds(20);  // when all are armed
    for (flow& f : flows) {
        f.interval = nanoseconds(std::llround(share(random) * 1e6 * double(o.flows) / o.packets));
        f.due = start + f.interval * (random() % 1000) / 1000;
        f.home = p.get();
        p->arm(f);
    }
    nanoseconds busy{}, idle{}, worst{};
    double turns = 0;  // idle ones
    const time_point end = start + nanoseconds(std::llround(o.seconds * 1e9));
    for (time_point begin = p->now(); begin < end;) {
        const bool sent = p->run();
        if (o.simulated) simulated::now_ += step;
        const nanoseconds took = p->now() - begin;
        (sent ? busy : idle) += took, turns += !sent;
        worst = std::max(worst, took);
        begin += took;
    }
    const double packets = double(p->late.count()), meant = o.packets * o.seconds * 1e3;
    fmt::print("{:<8}{:>10}{:>12.0f}{:>10.0f}", with, packets, double(busy.count()) / packets,
               double(idle.count()) / turns);
    for (const double q : {0.5, 0.99, 0.999})
        fmt::print("{:>10.2f}", example::microseconds_of(p->late.quantile(q)));
    fmt::print("{:>7.1f}\n", example::microseconds_of(worst));
    return p->late.early() == 0 && packets > meant * 0.8 && packets < meant * 1.3 &&
           (!o.simulated || p->late.max() <= tick + step);
}

}  // namespace

int main(int argc, char** argv) {
    return example::run_program("pacing", [&] {
        options o;
        example::command_line line{"Sends packets of many flows, each at its rate.", "pacing"};
        line.add_number("--flows", o.flows, 1, 10'000'000, "how many");
        line.add_number("--packets", o.packets, 1, 100'000, "of all flows, in a millisecond");
        line.add_number("--tick", o.tick, 1, 1'000, "in microseconds");
        line.add_number("--seconds", o.seconds, 0.001, 1e6, "for each structure");
        line.add_choices("--with", o.with, {"wheel", "heap", "tree", "slots"}, "structures");
        line.add_flag("--udp", o.udp, "send over the loopback, instead of nothing");
        line.add_flag("--simulated", o.simulated, "a test on a simulated clock");
        line.parse_or_exit(argc, argv);
        std::puts("           packets   ns/packet   ns idle   p50, us       p99     p99.9  worst");
        return static_cast<int>(
            std::ranges::count_if(o.with, [&](const std::string& with) { return !pace(o, with); }));
    });
}
