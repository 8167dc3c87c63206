// Breaks the time of a machine, and tells whose timers are early, late or never fire. It is process
// 1 of the virtual machine that tests/machines/broken_time/run boots. Each user of timers is a
// process that sleeps through the event, and then has a timer every 50 ms.
#include <event2/event.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio.hpp>

#include "support/loops.hpp"
#include "tvec/extra/timer_thread.hpp"
#include "tvec/guests/asio_guest.hpp"
#include "tvec/guests/asio_shared_timer.hpp"
#include "tvec/guests/libevent_guest.hpp"
#include "tvec/guests/libuv_guest.hpp"
#include "tvec/tvec.hpp"
#include "tvec/uring.hpp"

// Of Criterion, which the loops of other tests use.
extern "C" void criterion_skip_test(const char* why, ...) { _exit(std::puts(why)); }
extern "C" void cr_log(criterion_severity, const char*, ...) {}

namespace {

using namespace std::chrono_literals;
using boost::asio::io_context;
using std::chrono::nanoseconds, std::chrono::milliseconds;
using std::chrono::steady_clock, std::chrono::system_clock, tvec::boottime_clock;
enum { steady, boottime, system_time };
constexpr const char* clock_names[] = {"steady", "boottime", "system"};
using moment = std::array<nanoseconds, 3>;  // by each of these clocks

template <class Clock> nanoseconds read() {
    return std::chrono::duration_cast<nanoseconds>(Clock::now().time_since_epoch());
}
moment now() { return {read<steady_clock>(), read<boottime_clock>(), read<system_clock>()}; }

// What the process of a user tells, in shared memory.
struct record {
    std::atomic<bool> here;
    std::atomic<nanoseconds> due;  // of the pending timer
    nanoseconds first_due, first, early, late;
};

// What befalls the processes, beside the event.
enum { alone, signals, flood, shifted, pinned, stepped, stops };
struct scenario {
    const char* name;
    nanoseconds delay, length;  // of the first timer; of all
    void (*event)();
    int what;
};

// The timer of a process.
template <class C> struct heart {
    using clock = C;
    using ticks = tvec::tick_clock<milliseconds, clock>;
    using wheel = tvec::clocked_wheel<ticks>;
    record& r;
    const scenario& s;
    typename clock::time_point due{};

    void arm(nanoseconds delay) {
        due = clock::now() + std::chrono::duration_cast<typename clock::duration>(delay);
        r.due = due.time_since_epoch();
    }
    void fire() {
        const nanoseconds fired = read<clock>(), was = r.due;
        if (r.first == 0ns)
            r.first_due = was, r.first = fired;
        else
            r.late = std::max(r.late, fired - was);
        r.early = std::max(r.early, was - fired);
        arm(50ms);
    }
};

[[noreturn]] void halt() {
    for (;;) pause();
}

// --- loops with a driver ------------------------------------------------------------------------

// A timer that arms itself again.
template <class Clock> auto beating(heart<Clock>& h, auto& timers) {
    return tvec::callback_timer{[&](auto&, tvec::timer& self) {
        h.fire();
        timers.arm_at(self, h.due);
    }};
}
template <template <class> class Loop, class Clock> void by_loop(heart<Clock>& h) {
    typename heart<Clock>::wheel timers;
    Loop loop(timers);
    auto t = beating(h, timers);
    timers.arm_at(t, h.due);
    for (int i = 0;; timers.run(256)) {
        if constexpr (requires { loop.ring_fd(); })  // more completions than its queue of 16 holds
            for (; h.s.what == flood && i < 32; ++i) {
                loop.poke();
                if (i % 8 == 7) loop.sleep(0);
            }
        loop.sleep();
    }
}

// --- other threads ------------------------------------------------------------------------------

void by_thread(heart<steady_clock>& h) {
    tvec::timer_thread timers({.max_pending = 16});
    std::function<void()> arm = [&] {
        static_cast<void>(timers.schedule_at(h.due, [&] {
            h.fire();
            arm();
        }));
    };
    arm();
    halt();
}
// Sends from another thread, which waits for each call.
std::thread sending(heart<steady_clock>& h, auto to, auto flush) {
    return std::thread([&h, to, flush] {
        for (std::binary_semaphore fired{0};; fired.acquire()) {
            static_cast<void>(to().schedule_at(h.due, [&h, &fired] {
                h.fire();
                fired.release();
            }));
            flush();
        }
    });
}
void by_eventfd_doorbell(heart<steady_clock>& h) {
    heart<steady_clock>::wheel timers;
    tvec::eventfd_doorbell bell;
    tvec::mailbox mailbox(timers, 64, bell);
    support::timerfd_loop loop(timers);
    loop.watch(bell.fd());
    sending(
        h, [&] { return mailbox.sender(); }, [] {})
        .detach();
    for (;; timers.run(256)) {
        mailbox.rearm();
        loop.sleep();
        bell.acknowledge();
        mailbox.run();
    }
}
void by_uring_doorbell(heart<steady_clock>& h) {
    heart<steady_clock>::wheel timers;
    support::wait_loop loop(timers);
    tvec::mailbox mailbox(timers, 64, [&] { loop.poke(); });
    support::ring own;
    tvec::uring_doorbell bell(own.get(), loop.ring_fd());
    sending(
        h, [&] { return mailbox.sender().through(bell); }, [&] { io_uring_submit(&own.get()); })
        .detach();
    for (;; timers.run(256)) {
        mailbox.rearm();
        loop.sleep();
        mailbox.run();
    }
}

// --- guests, and their hosts without us ---------------------------------------------------------

struct libuv {
    template <class Ticks> using guest = tvec::libuv_guest<Ticks>;
    uv_loop_t* loop = uv_default_loop();
    void run() { uv_run(loop, UV_RUN_DEFAULT); }
};
struct libevent {
    template <class Ticks> using guest = tvec::libevent_guest<Ticks>;
    event_base* loop = event_base_new();
    void run() { event_base_dispatch(loop); }
};
struct asio {
    template <class Ticks> using guest = tvec::asio_guest<io_context, Ticks>;
    io_context loop;
    void run() { loop.run(); }
};
template <class Host, class Clock> void by_guest(heart<Clock>& h) {
    Host host;
    typename Host::template guest<typename heart<Clock>::ticks> timers(host.loop);
    auto t = beating(h, *timers);
    timers->arm_at(t, h.due);
    timers.keep_running();
    host.run();
}
struct session : std::enable_shared_from_this<session> {
    session(io_context& io, heart<steady_clock>& beats) : executor(io.get_executor()), h(beats) {}
    auto get_executor() { return executor; }
    void on_time() {
        h.fire();
        timer.arm_at(h.due);
    }
    boost::asio::strand<io_context::executor_type> executor;
    heart<steady_clock>& h;
    tvec::asio_shared_timer timer{boost::asio::use_service<tvec::asio_shared_wheel<io_context>>(
                                      executor.get_inner_executor().context()),
                                  tvec::posted_call<&session::timer, &session::on_time>};
};
void by_shared_timer(heart<steady_clock>& h) {
    io_context io;
    const auto stay = boost::asio::make_work_guard(io);
    const auto only = std::make_shared<session>(io, h);
    only->timer.arm_at(h.due);
    io.run();
}
template <class Clock> void by_asio(heart<Clock>& h) {
    io_context io;
    boost::asio::basic_waitable_timer<Clock> t(io);
    std::function<void()> arm = [&] {
        t.expires_at(h.due);
        t.async_wait([&](const auto&) {
            h.fire();
            arm();
        });
    };
    arm();
    io.run();
}
void arm_libuv(uv_timer_t* t) {
    const auto left = static_cast<heart<steady_clock>*>(t->data)->due - steady_clock::now();
    const auto fire = [](uv_timer_t* self) {
        static_cast<heart<steady_clock>*>(self->data)->fire();
        arm_libuv(self);
    };
    uv_update_time(t->loop);
    uv_timer_start(t, fire, static_cast<std::uint64_t>(std::chrono::ceil<milliseconds>(left) / 1ms),
                   0);
}
void by_libuv(heart<steady_clock>& h) {
    uv_timer_t t;
    uv_timer_init(uv_default_loop(), &t);
    t.data = &h;
    arm_libuv(&t);
    uv_run(t.loop, UV_RUN_DEFAULT);
}
void by_libevent(heart<steady_clock>& h) {
    event_base* const loop = event_base_new();
    std::function<void()> again, arm = [&] {
        const auto left = std::chrono::ceil<std::chrono::microseconds>(h.due - steady_clock::now());
        const timeval after{left / 1s, left % 1s / 1us};
        const auto fire = [](int, short, void* f) { (*static_cast<std::function<void()>*>(f))(); };
        event_base_once(loop, -1, EV_TIMEOUT, fire, &again, &after);
    };
    again = [&] {
        h.fire();
        arm();
    };
    arm();
    event_base_dispatch(loop);
}

// --- users --------------------------------------------------------------------------------------

struct user {
    const char* name;
    int clock;
    std::function<void(record&, const scenario&)> live;
};
std::vector<user> users;
template <class Clock> void add(const char* name, int clock, auto live) {
    users.push_back({name, clock, [live](record& r, const scenario& s) {
                         heart<Clock> h{r, s};
                         h.arm(s.delay);
                         live(h);
                     }});
}
void add_on_each_clock(const char* name, auto live) {
    add<steady_clock>(name, steady, live);
    add<boottime_clock>(name, boottime, live);
    add<system_clock>(name, system_time, live);
}
void add_all() {
    add_on_each_clock("uring_wait", [](auto& h) { by_loop<support::wait_loop>(h); });
    add_on_each_clock("uring_timeout", [](auto& h) { by_loop<support::timeout_loop>(h); });
    add_on_each_clock("timerfd_alarm", [](auto& h) { by_loop<support::timerfd_loop>(h); });
    add_on_each_clock("epoll_wait", [](auto& h) { by_loop<support::epoll_loop>(h); });
    add_on_each_clock("libuv_guest", [](auto& h) { by_guest<libuv>(h); });
    add_on_each_clock("libevent_guest", [](auto& h) { by_guest<libevent>(h); });
    add_on_each_clock("asio_guest", [](auto& h) { by_guest<asio>(h); });
    add<steady_clock>("asio_shared_timer", steady, by_shared_timer);
    add<steady_clock>("timer_thread", steady, by_thread);
    add<steady_clock>("eventfd_doorbell", steady, by_eventfd_doorbell);
    add<steady_clock>("uring_doorbell", steady, by_uring_doorbell);
    add<steady_clock>("libuv", steady, by_libuv);
    add<steady_clock>("libevent", steady, by_libevent);
    add<steady_clock>("Asio", steady, by_asio<steady_clock>);
    add<system_clock>("Asio", system_time, by_asio<system_clock>);
}

// --- events -------------------------------------------------------------------------------------

void put(const char* file, const char* text) {
    const int fd = open(file, O_WRONLY);
    if (fd < 0 || write(fd, text, std::strlen(text)) < 0) std::perror(file);
    close(fd);
}
// Steps or slews the time of day.
void adjust(unsigned how, long seconds, long ppm) {
    timex t{};
    t.modes = how;
    t.time.tv_sec = seconds;
    t.freq = ppm * 65536;
    if (adjtimex(&t) < 0) std::perror("adjtimex");
}
const auto nap = [](nanoseconds length) { std::this_thread::sleep_for(length); };
pid_t troupe;  // the group of all users

constexpr const char* second_processor = "/sys/devices/system/cpu/cpu1/online";
bool has_second() { return access(second_processor, F_OK) == 0; }

void put_around(const char* file, const char* first, const char* then) {
    put(file, first);
    nap(2s);
    put(file, then);
}

void freeze() { put_around("/c/users/cgroup.freeze", "1", "0"); }
void take_a_processor() { put_around(second_processor, "0", "1"); }
void stop_processes() { kill(-troupe, SIGSTOP), nap(2s), kill(-troupe, SIGCONT); }
void step_forward() { adjust(ADJ_SETOFFSET, 3600, 0); }
void step_back_and_forward() { adjust(ADJ_SETOFFSET, -3600, 0), nap(2s), step_forward(); }
void slew() {
    for (const long ppm : {500, -500, 0}) adjust(ADJ_FREQUENCY, 0, ppm), nap(1s);
}
// No processor runs anything, and the clocks go on: what a machine sees when its host stops it. The
// local APIC of the only processor holds back all interrupts below the priority in its register.
void pause_machine() {
    if (has_second()) put(second_processor, "0");
    void* const apic = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                            open("/dev/mem", O_RDWR | O_SYNC), 0xfee00000);
    auto* const priority = static_cast<volatile std::uint32_t*>(apic) + 0x80 / 4;
    *priority = 0xff;
    for (const auto end = steady_clock::now() + 2s; steady_clock::now() < end;)
        for (volatile int spun = 0; spun < 100'000;) spun = spun + 1;
    *priority = 0;
    if (has_second()) put(second_processor, "1");
}
void suspend() {
    put("/sys/class/rtc/rtc0/wakealarm", "+12");
    put("/sys/power/state", "mem");
}
void nothing() {}

const scenario scenarios[] = {
    {"nothing", 500ms, 2s, nothing, alone},
    {"a signal each millisecond", 500ms, 2s, nothing, signals},
    {"a ring that overflows", 500ms, 2s, nothing, flood},
    {"a shifted time namespace", 500ms, 2s, nothing, shifted},
    {"processes stopped for 2 s", 1s, 5s, stop_processes, stops},
    {"a cgroup frozen for 2 s", 1s, 5s, freeze, stops},
    {"a processor taken away", 1s, 5s, take_a_processor, pinned},
    {"the machine stopped by its host for 2 s", 1s, 5s, pause_machine, stops},
    {"500 ppm fast, then slow", 2s, 5s, slew, alone},
    {"an hour forward, over the deadline", 1800s, 4s, step_forward, stepped},
    {"an hour back, and forward after 2 s", 1s, 6s, step_back_and_forward, stepped},
    {"a suspend, over the deadline", 5s, 8s, suspend, stops},
};

// --- the play, and what was seen ----------------------------------------------------------------

struct board {
    std::atomic<bool> curtain;  // everybody begins
    record of[64];              // each user
};
board* shown;

void be(const user& u, const scenario& s, record& mine) {
    if (fork() != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(1, &one);
    if (s.what == pinned) sched_setaffinity(0, sizeof one, &one);
    signal(SIGALRM, [](int) {});
    const itimerval often{{0, 1000}, {0, 1000}};
    mine.here = true;
    while (!shown->curtain) nap(20ms);
    if (s.what == signals) setitimer(ITIMER_REAL, &often, nullptr);
    u.live(mine, s);
}

// The users of each kind, by clocks.
struct list {
    std::string text[3];
    void add(const user& u, bool is) {
        std::string& t = text[u.clock];
        if (is) t += (t.empty() ? std::string(clock_names[u.clock]) + ": " : ", ") + u.name;
    }
    std::string cell() const {
        std::string all;
        for (const auto& t : text) all += (all.empty() || t.empty() ? "" : "; ") + t;
        return " " + all + (all.empty() ? "|" : " |");
    }
};

void play(const scenario& s) {
    std::memset(static_cast<void*>(shown), 0, sizeof *shown);
    troupe = fork();
    if (troupe == 0) {
        setpgid(0, 0);
        put("/c/users/cgroup.procs", "0");
        if (s.what == shifted && unshare(CLONE_NEWTIME) == 0)
            put("/proc/self/timens_offsets", "monotonic 100000 0\nboottime 100000 0\n");
        for (const user& u : users) be(u, s, shown->of[&u - users.data()]);
        halt();
    }
    for (const user& u : users)
        while (!shown->of[&u - users.data()].here) nap(10ms);
    shown->curtain = true;
    const auto end = steady_clock::now() + s.length;
    nap(500ms);
    moment from = now();
    s.event();
    moment until = now();
    if (s.what != stops) until[steady] = until[boottime] = 0ns;  // they fire meanwhile
    if (s.what != stops && s.what != stepped) until[system_time] = 0ns;
    std::this_thread::sleep_until(end);
    moment last = now();
    if (s.what == shifted) last[steady] += 100'000s, last[boottime] += 100'000s;
    list early, late, never;
    for (const user& u : users) {
        const record& r = shown->of[&u - users.data()];
        const bool missed = r.first_due < until[u.clock] && r.first >= from[u.clock];
        const auto first_late = r.first - (missed ? until[u.clock] : r.first_due);
        early.add(u, r.early > 0ns);
        late.add(u, std::max(first_late, r.late) > 1s);
        never.add(u, r.due.load() + 1s < last[u.clock]);
        std::printf("%s, %s: %.3f early, %.3f late at first, %.3f later\n", u.name,
                    clock_names[u.clock], double(r.early.count()) / 1e6,
                    double(first_late.count()) / 1e6, double(r.late.count()) / 1e6);
    }
    const record& witness = shown->of[1];  // on boottime_clock, due in the middle of each stop
    if (s.what == stops && witness.first < witness.first_due + 500ms)
        std::printf("| %s: nothing stopped\n", s.name);
    kill(-troupe, SIGKILL);
    while (wait(nullptr) > 0) {
    }
    std::printf("| %s |%s%s%s\n", s.name, early.cell().c_str(), late.cell().c_str(),
                never.cell().c_str());
}

}  // namespace

int main() {
    if (getpid() != 1) return std::puts("broken_time: it sets the clock, and must be process 1"), 2;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const char* const places[][2] = {
        {"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"cgroup2", "/c"}};
    for (const auto& [type, place] : places) {
        mkdir(place, 0755);
        mount("none", place, type, 0, nullptr);
    }
    mkdir("/c/users", 0755);
    put("/proc/sys/kernel/printk", "1");
    shown = static_cast<board*>(
        mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    add_all();
    const char* const only = std::getenv("only");  // of the kernel's command line
    for (const scenario& s : scenarios)
        if (std::strstr(s.name, only ? only : "") && (s.what != pinned || has_second())) play(s);
    tcdrain(1);
    reboot(RB_AUTOBOOT);  // qemu ends
}
