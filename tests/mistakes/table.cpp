// clang-format off
// Wrong code, and words that the compiler must say about it: tests/programs/mistakes.py reads this
// table.
// Each row is code, perhaps of several lines, and a comment with the words. "compiles" says that
// the code is no mistake.
// Words that only one compiler says stand behind its name.

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tvec/tvec.hpp"
#if __has_include(<liburing.h>)
#include "tvec/uring.hpp"
#endif
#if __has_include(<boost/asio/thread_pool.hpp>)
#include <boost/asio/thread_pool.hpp>

#include "tvec/guests/asio_shared_timer.hpp"
extern boost::asio::thread_pool asio_threads;
#endif

using namespace std::chrono_literals;
using std::chrono::steady_clock, std::chrono::system_clock;
using game_wheel = tvec::clocked_wheel<tvec::game_ticks<std::chrono::milliseconds>>;

struct connection {
    tvec::timer idle;
    int idle_for = 0;
};
struct awaiter {  // whose destructor does nothing
    bool await_ready() const;
    void await_suspend(std::coroutine_handle<>);
    int await_resume();
};
struct mail { void operator()() const; };
extern tvec::clocked_wheel<> w;
extern tvec::timer_wheel wheel;
extern tvec::timer t;
extern tvec::timer::callback fire;
extern connection c;
extern tvec::timeout_pool<> pool;
extern tvec::timeout_handle handle;
extern void (*const function)();
extern tvec::mailbox<> mailbox;
extern const tvec::mailbox_sender<> sender;
extern tvec::timer_group group;
extern tvec::timer_thread<> threaded;
extern tvec::snapshot saved;
extern tvec::game_clock<> world;
extern tvec::sleeper nap;
extern std::stop_token token;

// --- statements

// Arming
w.arm_after(t, 20);                                     // a duration: 1500ms, not 1.5s
w.arm_after(t, 1.5s);                                   // a duration: 1500ms, not 1.5s
w.arm_after(c, 20ms);                                   // a timer: c.idle, not c or &c
w.arm_after(&c, 20ms);                                  // a timer: c.idle, not c or &c
w.arm_after(&t, 20ms);                                  // a timer: c.idle, not c or &c
w.arm_after(tvec::timer{}, 20ms);                       // a timer: c.idle, not c or &c
w.arm_at(c, w.now());                                   // a timer: c.idle, not c or &c
w.arm_at(&t, w.after(20ms));                            // a timer: c.idle, not c or &c
w.arm_at(t, 20ms);                                      // a time of its clock: after(20ms)
w.arm_at(t, system_clock::now());                       // a time of its clock: after(20ms)
w.arm_at(t, steady_clock::now() + 0.5s);                // a time of its clock: after(20ms)
w.arm_if_pending(t, 20ms);                              // a time: after(20ms)
w.arm_unless_pending(t, system_clock::now());           // a time: after(20ms)
w.arm_if_earlier(t, 20ms);                              // a time: after(20ms)
w.arm_next(t, 20);                                      // a duration: 1500ms, not 1.5s
w.arm_within(t, 5, 10);                                 // two durations: 60s, 90s
w.arm_within(t, 5ms);                                   // two durations: 60s, 90s
(void)w.after(20);                                      // a duration: 1500ms, not 1.5s
wheel.arm_after(t, 20ms);                               // whole ticks; durations: clocked_wheel
wheel.arm_after(t, 1.5);                                // whole ticks; durations: clocked_wheel
t.arm_after(30s);                                       // its wheel: timers.arm_after(t, 30s)
t.reset();                                              // timers.arm_after(t, 30s), or t.cancel()
w.arm(t, 1s);                                           // arm_after(t, 30s), or arm_at(t, deadline)
wheel.arm(t, 20);                                       // arm_after(t, 30), or arm_at(t, tick)
w.arm_after(t, 2min), w.arm_after(t, std::chrono::days(400));  // compiles
w.arm_at(t, std::chrono::time_point_cast<std::chrono::seconds>(steady_clock::now()));  // compiles
std::reference_wrapper<tvec::timer> r(t);
w.arm_after(r, 20ms), w.arm_at(r, w.after(20ms)), w.arm_within(r, 20ms, 1s);
w.arm_at(r, std::chrono::time_point_cast<std::chrono::seconds>(steady_clock::now()));  // compiles
static tvec::callback_timer k{[] {}};
w.arm_after(k, 20ms), w.arm_at(k, w.after(20ms)), w.arm_if_earlier(k, w.after(20ms));
w.arm_if_pending(k, w.after(20ms)), w.arm_within(k, 20ms, 1s), w.arm_next(k, 20ms);
wheel.arm_after(k, 20);                                 // compiles
wheel.arm_after(t, -5), wheel.arm_at(t, -5), wheel.advance(-1);  // compiles

// Running, walking, saving
w.cancel(t);                                            // the timer itself: t.cancel()
wheel.cancel(t);                                        // the timer itself: t.cancel()
w.advance(10);                                          // run(); in ticks wheel().advance(tick)
wheel.run(256);
    // advance(tick, budget), or a tvec::clocked_wheel
w.schedule(1s, [] {});
    // arm_after(t, 30s); functions: timeout_pool
wheel.schedule(20, [] {});                              // arm_after(t, 30); functions: timeout_pool
while (!w.empty()) w.run();                             // any_pending(), or count_pending()
(void)wheel.empty();                                    // any_pending(), or count_pending()
w.run(5ms);
    // a budget of visits; it reads the clock itself
w.run_until(5ms);                                       // a time_point: after(2ms)
w.run(-1);                                              // compiles
w.run_watched([] {});
    // the watch is called with a const tvec::timer_wheel::due_callback&
wheel.collect(5, 10, [] {});                            // `take` is called with a tvec::timer&
wheel.advance_in_order(5, [](tvec::timer&) { return 1; });
    // the order is a function of two tvec::timer&
std::as_const(wheel).for_each_pending([](tvec::timer& p) { p.cancel(); });
// the visitor is called with a const tvec::timer&, for the wheel is const
wheel.for_each_pending([](tvec::timer&) { return 1; });
    // it returns nothing, or a bool: false to end here
saved.capture(w, [](const tvec::timer&) { return 0; });  // its wheel()
saved.restore(w, [](std::uint64_t) -> tvec::timer* { return nullptr; });  // its wheel()
auto v = w;                                             // a reference: a wheel stays where it is
auto v = wheel;                                         // a reference: a wheel stays where it is
(void)[] { tvec::clocked_wheel<> v; return v; };        // a reference: a wheel stays where it is

// Clocks
tvec::clocked_wheel v{10ms};                            // ticks: t{runtime_tick_clock(10ms)}
tvec::clocked_wheel v{0.5s};                            // ticks: t{runtime_tick_clock(10ms)}
tvec::clocked_wheel<std::chrono::microseconds> v;       // a clocked_wheel is made of a tick_clock
tvec::clocked_wheel<tvec::tick_clock<std::chrono::duration<double>>> v;
    // a tick is a duration that counts in integers
tvec::clocked_wheel<tvec::runtime_tick_clock<>> v;
    // a tick: clocked_wheel timers(runtime_tick_clock(5ms))
tvec::runtime_tick_clock<> ticks(5);                    // whole units of the clock: 5ms
tvec::runtime_tick_clock<> ticks(std::chrono::duration<int, std::ratio<1, 60>>(1));
    // whole units of the clock: 5ms
game_wheel v;
    // a clock: clocked_wheel timers{game_ticks<milliseconds>(world)}
tvec::game_clock<> other = world;                       // a reference: wheels refer to their clock
tvec::game_ticks<std::chrono::milliseconds> ticks{tvec::game_clock<>{}};
    // a clock that outlives it
tvec::game_ticks<std::chrono::duration<int, std::ratio<1, 165>>> ticks(world);
    // a tick of game time is whole ninths of a nanosecond
tvec::scaled_wheel<tvec::clocked_wheel<>> idle(tvec::clocked_wheel<>{}, 55s);
    // a wheel that outlives it
world.step(16);                                         // a duration: frame(1) or 16ms, not 0.016s
world.step(0.016s);                                     // a duration: frame(1) or 16ms, not 0.016s
world.set_speed(-1);
    // clang++: a speed from 0 on: pause() stops a clock
world.set_speed(-0.5);
    // clang++: a speed from 0 on: pause() stops a clock
const int i = 1; world.set_speed(0), world.set_speed(1u, 3), world.set_speed(0.5),
    world.set_speed(i, 2);
    // compiles
tvec::clocked_wheel<tvec::tick_clock<std::chrono::milliseconds, system_clock>> v;  // compiles

// Pools
pool.schedule(100, [] {});                              // a duration (1500ms, not 1.5s), f
pool.schedule([] {}, 1ms);                              // a duration (1500ms, not 1.5s), f
pool.schedule_at(1ms, [] {});                           // a time_point, f
pool.schedule_every(100, [] {});                        // 1500ms, f
pool.schedule_every(steady_clock::now(), 100, [] {});   // start, 5ms, f
pool.schedule_every(100ms, steady_clock::now(), [] {}); // 1500ms, f
(void)pool.schedule_every(std::chrono::time_point_cast<std::chrono::seconds>(steady_clock::now()),
    1s, [] {});
    // compiles
(void)pool.schedule_every(1s, [] {}), (void)pool.schedule_every(1s, function,
    tvec::missed_periods::burst);
    // compiles
pool.reschedule(handle, 100);                           // a duration: 1500ms, not 1.5s
pool.reschedule_at(handle, 5ms);                        // a time: after(5ms)
pool.cancel(pool.schedule(1ms, [] {}));                 // the handle in what `schedule` returned
pool.schedule(1ms, [] {});
    // it tells a refusal, such as too_many: check it, or cast it to void
(void)pool.take<const mail>(handle);                    // take gives a function object
(void)pool.schedule(1ms, [](int) {});
    // a timeout's function is called with nothing
(void)pool.schedule(1ms, [m = std::array<char, 64>{}] { (void)m; });  // capture a pointer to
(void)pool.schedule(1ms, group.add([m = std::array<char, 40>{}] { (void)m; }));
// in a group, a timeout's function object has at most 32 bytes
(void)pool.schedule(1ms, [u = std::make_unique<int>(1)] {}), pool.cancel({});  // compiles
tvec::timeout_pool other(tvec::clocked_wheel<>{});      // a wheel that outlives it
tvec::timeout_pool other(wheel);
    // a timeout_pool is on a tvec::clocked_wheel
tvec::timeout_pool other = pool;                        // a reference: a pool stays where it is
tvec::timer_group other = group;                        // std::move: a timer is in one group

// Mailboxes, threads
sender.schedule(100, [] {});                            // a duration (1500ms), f
sender.schedule_at(1ms, [] {});                         // a time_point, f
sender.reschedule({}, 100);                             // a duration: 1500ms
sender.reschedule_at({}, 1ms);                          // a time_point
sender.cancel(sender.schedule(1ms, [] {}));
    // the handle in what `schedule` returned: .handle
sender.schedule(1ms, [] {});
    // it tells a refusal, such as full: check it, or cast it to void
(void)sender.post([m = std::array<char, 64>{}] { (void)m; });  // capture a pointer to
(void)sender.schedule(1ms, [] {});                      // compiles
auto other = mailbox;
    // a sender: the mailbox itself stays where it is
tvec::mailbox other(wheel, 64, [] {});                  // a mailbox is on a tvec::clocked_wheel
threaded.schedule(100, [] {});                          // a duration (1500ms, not 1.5s), f
threaded.schedule_at(1ms, [] {});                       // a time_point, f
auto other = threaded;                                  // a reference: a timer stays where it is
tvec::timer_thread other({}, [](mail) {}); (void)other.schedule(1ms, [] {});
// the executor of a timer_thread takes this function object

// Coroutines
(void)tvec::sleep_for(w, 5);                            // a wheel, then 1500ms, not 1.5s
(void)tvec::sleep_for(1ms, w);                          // a wheel, then 1500ms, not 1.5s
(void)tvec::sleep_for(20ms);
    // a wheel, then a delay: sleep_for(timers, 1500ms)
(void)tvec::sleep_until(w, 5ms);                        // a wheel, a point of its time
(void)tvec::sleep_until(steady_clock::now());           // a wheel, then a point of its time
(void)tvec::sleep_for(wheel, 5ms);                      // whole ticks; durations: clocked_wheel
struct own : tvec::clocked_wheel<> {} o; (void)tvec::sleep_for(o, 5ms), (void)tvec::sleep_until(o,
    o.after(5ms)), (void)tvec::sleep_for(o, 5ms, token);
    // compiles
(void)tvec::sleep_for(w, 100, token);                   // wheel, 50ms, stop
tvec::sleep_for(w, 1ms);                                // it waits for nothing before
nap = tvec::sleep_for(w, 30s);                          // reset: nap.reset
using namespace std::this_thread; using namespace tvec; sleep_for(1ms),
    sleep_until(steady_clock::now());
    // compiles
(void)tvec::sleep_for(wheel, 5), (void)tvec::sleep_until(wheel, 5), (void)tvec::sleep_for(wheel, 5,
    token);
    // compiles
(void)tvec::sleep_until(w, std::chrono::time_point_cast<std::chrono::seconds>(steady_clock::now()));
    // compiles
(void)tvec::with_timeout(w, awaiter{}, 1ms);
    // what is awaited cannot be abandoned: its destructor does nothing
(void)tvec::with_timeout(w, 5, 1ms);
    // with_timeout is given a wheel, what to await, and a duration or ticks
(void)tvec::with_timeout(w, 1ms, tvec::sleep_for(w, 5ms));  // wheel, what, 500ms
(void)tvec::with_timeout_until(w, tvec::sleep_for(w, 5ms), 1ms);  // a time_point
(void)tvec::with_timeout(wheel, tvec::sleep_for(wheel, 5), 9);  // compiles

// Drivers, watches
tvec::timerfd_alarm alarm(tvec::clocked_wheel<>{});     // a wheel that outlives it
tvec::timerfd_alarm alarm(wheel);
    // timerfd_alarm rings for a tvec::clocked_wheel
tvec::epoll_wait(0, nullptr, 1, wheel);
    // epoll_wait waits for a tvec::clocked_wheel
tvec::stall_watch watch(tvec::clocked_wheel<>{});       // a wheel that outlives it
tvec::stall_watch watch(wheel);
    // stall_watch watches over a tvec::clocked_wheel
tvec::stall_watch watch(*static_cast<game_wheel*>(nullptr));
    // stall_watch wants a wheel on a clock of real time
tvec::stall_watch(w).listen([] {});
    // listen wants a function that returns how many messages
io_uring ring; tvec::uring_wait wait(ring, tvec::clocked_wheel<>{});     // a wheel that outlives it
io_uring ring; tvec::uring_wait wait(ring, wheel);
    // uring_wait waits for a tvec::clocked_wheel
io_uring ring; tvec::uring_wait wait(&ring, w);
    // the ring, not its address: wait(ring, timers)
io_uring ring; tvec::uring_timeout alarm(ring, tvec::clocked_wheel<>{});
    // a wheel that outlives it
io_uring ring; tvec::uring_timeout alarm(ring, wheel);
    // uring_timeout wakes for a tvec::clocked_wheel
io_uring ring; tvec::uring_timeout alarm(&ring, w);
    // the ring, not its address: alarm(ring, timers)
io_uring ring; tvec::uring_timeout(ring, w).prepare();  // nodiscard
tvec::asio_guest timers(asio_threads);                  // an io_context that one thread runs
struct lone { int get_executor(); void f(); tvec::asio_shared_timer t; };
    (void)tvec::posted_call<&lone::t, &lone::f>;
    // derives publicly from std::enable_shared_from_this
struct own : std::enable_shared_from_this<own> { void f(); tvec::asio_shared_timer t; };
    (void)tvec::posted_call<&own::t, &own::f>;
    // says where it is called
struct takes : std::enable_shared_from_this<takes> {
    int get_executor(); void f(tvec::timer&); tvec::asio_shared_timer t; };
    (void)tvec::posted_call<&takes::t, &takes::f>;
    // the method of a posted_call takes nothing: void on_idle()
struct asks : std::enable_shared_from_this<asks> {
    int get_executor(); void f(tvec::timer_wheel&); tvec::asio_shared_timer t; };
    (void)tvec::posted_call<&asks::t, &asks::f>;
    // the method of a posted_call takes nothing: void on_idle()

// Timers
tvec::timer u = t;                                      // std::move: a timer is in one place
tvec::timer u{[] {}};
    // f(timer_wheel&, timer&), or callback_timer
int n = 0; tvec::timer u{[&] { ++n; }};
    // f(timer_wheel&, timer&), or callback_timer
tvec::timer u{&mail::operator()};
    // f(timer_wheel&, timer&), or callback_timer
tvec::callback_timer k{[] {}}; t = std::move(k);
    // the whole callback_timer: its function stays behind
tvec::callback_timer k{[] {}}; tvec::timer u(std::move(k));
    // the whole callback_timer: its function stays behind
tvec::callback_timer k{[] {}}; k.set_callback(fire);
    // another callback_timer, assigned to this one
tvec::callback_timer k{[] {}}; auto u = k;              // std::move: a timer is in one place
tvec::callback_timer k{[](int) {}};
    // function takes (tvec::timer_wheel&, tvec::timer&), or nothing
int n = 0; auto f = [&n] { ++n; }; tvec::callback_timer a{f}, b{f}; a = std::move(b);
    // a function that can be assigned
tvec::timer u{[](tvec::timer_wheel&, tvec::timer&) {}}; tvec::timer null{nullptr};
    tvec::timer zero{0}; t.cancel();
    // compiles
(void)tvec::owner_of<&connection::idle_for>(t);
    // the first argument points to a member that is a tvec::timer

// --- declarations

struct k { tvec::timer t; }; inline void copy(k& a) { k b = a; }
    // std::move: a timer is in one place
struct server { tvec::clocked_wheel timers; };
    // g++: without an argument list  clang++: template arguments
void serve(tvec::clocked_wheel& timers);                // clocked_wheel
struct k { void on() {} tvec::timer t{tvec::call<&k::on>}; };  // first the timer, then the method
struct k { void on() {} tvec::timer t{tvec::call<&k::on, &k::t>}; };
    // first the timer, then the method
struct k { void on(int) {} tvec::timer t{tvec::call<&k::t, &k::on>}; };
    // the method takes nothing, a tvec::timer_wheel&, a tvec::timer&, or both
struct k { void on(tvec::clocked_wheel<>&) {} tvec::timer t{tvec::call<&k::t, &k::on>}; };
    // the method takes nothing, a tvec::timer_wheel&
struct k { static void on() {} tvec::timer t{tvec::call<&k::t, &k::on>}; };
    // the second argument is a method: &connection::on_idle
inline void f() {} struct k { tvec::timer t{tvec::call<&k::t, &f>}; };
    // the second argument is a method: &connection::on_idle
struct k { void on(); void on(int); tvec::timer t{tvec::call<&k::t, &k::on>}; };
    // g++: unable to deduce  clang++: on
struct k { void on() {} const tvec::timer t{tvec::call<&k::t, &k::on>}; };
    // arming changes a timer: declare it without const
struct k { void on() {} int n; tvec::timer t{tvec::call<&k::n, &k::on>}; };
    // the first argument points to a member that is a tvec::timer
struct k { void on() {} }; const auto g = tvec::call<nullptr, &k::on>;
    // the first argument points to a member that is a tvec::timer
struct k { void on() {} tvec::timer t[2]{tvec::timer{tvec::call<&k::t, &k::on>}}; };
    // each timer of an array has a callback of its own
struct k { void on() {} tvec::timer t[1]{tvec::timer{tvec::call_element<&k::t, 1, &k::on>}}; };
    // the array has no such element
struct k { void on() {} tvec::timer t{tvec::call_each<&k::t, &k::on>()}; };
    // the first argument points to a member that is a std::array
struct k { void on() {} std::array<tvec::timer, 3> t{tvec::call_each<&k::t, &k::on>}; };
    // to be called: call_each<&k::timers, &k::on_timer>()
struct s { void on() {} }; struct k { tvec::timer t{tvec::call<&k::t, &s::on>}; };
    // the timer and the method belong to the same object
struct s { tvec::timer t; }; struct k { void on() {} tvec::timer u{tvec::call<&s::t, &k::on>}; };
    // the timer and the method belong to the same object
struct s { tvec::timer t; }; struct k : virtual s { void on() {} k() { t =
    tvec::timer{tvec::call<&s::t, &k::on>}; } };
// a timer in a virtual base does not know its object
struct s { tvec::timer t; }; struct l { void on() {} }; struct k : s, l { k() { t =
    tvec::timer{tvec::call<&k::t, &k::on>}; } };
// or to two bases of a class that is named: tvec::call<timer, method, class>
struct k { void on() {} tvec::timer t{tvec::call<k::t, k::on>}; };
// g++: call takes a pointer to it: &connection::idle  clang++: a pointer to the timer:
// &connection::idle
struct k { void on() {} tvec::timer t{tvec::call<&k::t, k::on>}; };
// g++: 'void (row_  clang++: a pointer to the method: &connection::on_idle
struct s { void on() {} }; struct k : s { tvec::timer t{tvec::call<&k::t, &k::on>}; };  // compiles
struct s { tvec::timer t; }; struct k : s { void on() {} k() { t = tvec::timer{tvec::call<&k::t,
    &k::on>}; } };
    // compiles
class k { int on(tvec::timer_wheel&, tvec::timer&) const noexcept { return 1;
    } tvec::timer t{tvec::call<&k::t, &k::on>}; };
    // compiles
const tvec::clocked_wheel timers;
    const tvec::clocked_wheel quick{tvec::tick_clock<std::chrono::microseconds>{}};
const tvec::timeout_pool a(w); const tvec::timerfd_alarm b(w); const tvec::mailbox d(w, 16, [] {});
    // compiles
