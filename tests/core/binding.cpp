// How a timer finds its object and its callback: owner_of, call, callback_timer.
#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/check.hpp"
#include "tvec/core/timer_wheel.hpp"
#include "tvec/inspect/inspect.hpp"

using tvec::timer_wheel;

TestSuite(binding, .timeout = 60);

namespace {

struct connection {
    virtual ~connection() = default;
    virtual void on_idle() { ++idles; }
    void on_retry(timer_wheel& wheel) {
        ++retries;
        if (retries < 3) wheel.arm_after(retry, 5);
    }

    void on_retry_of_idle() { ++retries; }

    char name = 'c';
    int idles = 0;
    int retries = 0;
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
    tvec::timer retry{tvec::call<&connection::retry, &connection::on_retry>};
};

struct quiet_connection : connection {
    void on_idle() override { idles += 100; }
};

void by_hand(timer_wheel&, tvec::timer& t) { ++tvec::owner_of<&connection::idle>(t).idles; }

}  // namespace

Test(binding, timers_of_one_object_call_their_own_methods) {
    timer_wheel wheel;
    connection c;
    wheel.arm_after(c.idle, 10);
    wheel.arm_after(c.retry, 1);
    wheel.advance(100);
    CHECK_EQ(c.idles, 1);
    CHECK_EQ(c.retries, 3);
}

Test(binding, a_virtual_method_is_called_virtually) {
    timer_wheel wheel;
    const std::unique_ptr<connection> c = std::make_unique<quiet_connection>();
    wheel.arm_after(c->idle, 10);
    wheel.advance(10);
    CHECK_EQ(c->idles, 100);
}

Test(binding, owner_of_finds_the_object_around_the_timer) {
    connection c;
    CHECK(&tvec::owner_of<&connection::idle>(c.idle) == &c);
    CHECK(&tvec::owner_of<&connection::retry>(c.retry) == &c);
    timer_wheel wheel;
    c.idle = tvec::timer(by_hand);
    wheel.arm_after(c.idle, 1);
    wheel.advance(1);
    CHECK_EQ(c.idles, 1);
}

namespace {

// Three timers, two of one method.
struct session {
    void on_either(tvec::timer& t) { fired.push_back(&t); }
    void on_third(timer_wheel& wheel, tvec::timer& t) {
        fired.push_back(&t);
        if (fired.size() < 4) wheel.arm_after(t, 1);
    }

    std::vector<const tvec::timer*> fired;
    tvec::timer one{tvec::call<&session::one, &session::on_either>};
    tvec::timer two{tvec::call<&session::two, &session::on_either>};
    tvec::timer three{tvec::call<&session::three, &session::on_third>};
};

}  // namespace

Test(binding, a_method_is_told_which_timer_called_it) {
    timer_wheel wheel;
    session s;
    wheel.arm_after(s.two, 1);
    wheel.arm_after(s.one, 2);
    wheel.arm_after(s.three, 3);
    for (tvec::jiffies t = 1; t < 10; ++t) wheel.advance(t);
    CHECK(s.fired == (std::vector<const tvec::timer*>{&s.two, &s.one, &s.three, &s.three}));
}

namespace {

struct job {
    void on_phase(tvec::timer& t) { phases_over.push_back(&t - phases.data()); }
    void on_side(timer_wheel&) { ++sides_over; }

    char name = 'j';
    std::vector<std::ptrdiff_t> phases_over;
    int sides_over = 0;
    std::array<tvec::timer, 5> phases{tvec::call_each<&job::phases, &job::on_phase>()};
    tvec::timer sides[2]{tvec::timer{tvec::call_element<&job::sides, 0, &job::on_side>},
                         tvec::timer{tvec::call_element<&job::sides, 1, &job::on_side>}};
};

}  // namespace

Test(binding, timers_in_an_array_find_object_and_index) {
    timer_wheel wheel;
    job j;
    static_assert(sizeof j.phases == 5 * sizeof(tvec::timer));
    for (std::size_t i = 0; i < 5; ++i) wheel.arm_after(j.phases[i], 1 + i * 7 % 5);
    for (tvec::jiffies t = 1; t < 10; ++t) wheel.advance(t);
    CHECK(j.phases_over == (std::vector<std::ptrdiff_t>{0, 3, 1, 4, 2}));
}

Test(binding, timers_in_a_plain_array_find_their_object) {
    timer_wheel wheel;
    job j;
    for (tvec::timer& t : j.sides) wheel.arm_after(t, 300);
    wheel.advance(1'000);
    CHECK_EQ(j.sides_over, 2);
}

Test(binding, objects_with_arrays_of_timers_may_be_moved) {
    timer_wheel wheel;
    std::vector<job> all(1);
    for (tvec::timer& t : all[0].phases) wheel.arm_after(t, 5);
    for (int i = 0; i < 10; ++i) all.emplace_back();
    wheel.advance(5);
    CHECK_EQ(all[0].phases_over.size(), 5);
    CHECK_EQ(check(wheel), "");
}

namespace {

struct with_timers {
    virtual ~with_timers() = default;
    tvec::timer t;
    std::array<tvec::timer, 2> more;
};
struct with_method {
    virtual ~with_method() = default;
    void on_fire() { ++fired; }
    int fired = 0;
};

// Neither base begins where the object does.
struct derived_from_both : connection, with_timers, with_method {
    derived_from_both() {
        using self = derived_from_both;
        t = tvec::timer(tvec::call<&self::t, &self::on_own>);
        more = tvec::call_each<&with_timers::more, &with_method::on_fire, self>();
    }
    void on_own() { owns.push_back(this); }
    std::vector<const derived_from_both*> owns;
};

}  // namespace

Test(binding, a_base_class_timer_calls_a_derived_method) {
    timer_wheel wheel;
    derived_from_both d;
    wheel.arm_after(d.t, 1);
    wheel.advance(1);
    CHECK(d.owns == std::vector<const derived_from_both*>{&d});
}

Test(binding, timers_may_call_methods_of_another_base_class) {
    timer_wheel wheel;
    derived_from_both d;
    for (tvec::timer& t : d.more) wheel.arm_after(t, 1);
    wheel.advance(1);
    CHECK_EQ(d.fired, 2);
    d.t = tvec::timer(tvec::call<&with_timers::t, &with_method::on_fire, derived_from_both>);
    wheel.arm_after(d.t, 1);
    wheel.advance(2);
    CHECK_EQ(d.fired, 3);
    CHECK(d.owns.empty());
}

Test(binding, a_callback_may_be_changed_pending_or_not) {
    timer_wheel wheel;
    connection c;
    wheel.arm_after(c.idle, 10);
    c.idle.set_callback(tvec::call<&connection::idle, &connection::on_retry_of_idle>);
    CHECK(c.idle.pending());
    CHECK_EQ(wheel.advance(10).fired, 1);
    CHECK_EQ(c.idles, 0);
    CHECK_EQ(c.retries, 1);
    c.idle.set_callback(by_hand);
    wheel.arm_after(c.idle, 1);
    wheel.advance(11);
    CHECK_EQ(c.idles, 1);
}

Test(binding, a_timer_whose_callback_was_removed_does_nothing) {
    timer_wheel wheel;
    connection c;
    wheel.arm_after(c.idle, 10);
    c.idle.unlink();
    c.idle.set_callback(nullptr);
    wheel.arm_after(c.idle, 10);
    CHECK_EQ(wheel.advance(10).fired, 1);
    CHECK_EQ(c.idles, 0);
}

Test(binding, a_callback_may_change_its_own_successor) {
    static int first, second;
    first = second = 0;
    timer_wheel wheel;
    tvec::timer t([](timer_wheel& w, tvec::timer& self) {
        ++first;
        self.set_callback([](timer_wheel&, tvec::timer&) { ++second; });
        w.arm_after(self, 1);
    });
    wheel.arm_after(t, 1);
    wheel.advance(10);
    CHECK_EQ(first, 1);
    CHECK_EQ(second, 1);
}

Test(binding, a_callback_timer_carries_its_function) {
    timer_wheel wheel;
    int plain = 0, beats = 0;
    tvec::callback_timer once{[&] { ++plain; }};
    tvec::callback_timer beat{[&](timer_wheel& w, tvec::timer& self) {
        ++beats;
        w.arm_next(self, 10);
    }};
    wheel.arm_after(once, 5);
    wheel.arm_after(beat, 10);
    for (tvec::jiffies t = 1; t <= 100; ++t) wheel.advance(t);
    CHECK_EQ(plain, 1);
    CHECK_EQ(beats, 10);
}

Test(binding, a_callback_timer_may_be_moved_while_pending) {
    timer_wheel wheel;
    int fired = 0;
    auto move_me =
        tvec::callback_timer{[&fired, big = std::make_unique<int>(7)] { fired += *big; }};
    wheel.arm_after(move_me, 5);
    auto moved = std::move(move_me);
    wheel.advance(5);
    CHECK_EQ(fired, 7);
}

namespace {

// A function object that cannot be moved when it is told so.
struct clumsy {
    explicit clumsy(bool& drops) : drops_(&drops) {}
    clumsy(clumsy&& other) : drops_(other.drops_) { move(); }
    clumsy& operator=(clumsy&&) {
        move();
        return *this;
    }
    void operator()() {}

private:
    void move() const {
        if (*drops_) throw std::runtime_error("dropped");
    }
    bool* drops_;
};

template <class F> bool throws(F act) {
    try {
        act();
    } catch (const std::runtime_error&) {
        return true;
    }
    return false;
}

}  // namespace

Test(binding, a_callback_timer_stays_if_its_move_throws) {
    timer_wheel wheel;
    bool drops = false;
    tvec::callback_timer a{clumsy(drops)}, b{clumsy(drops)};
    wheel.arm_after(a, 5);
    wheel.arm_after(b, 7);
    drops = true;
    CHECK(throws([&] { auto c = std::move(a); }));
    CHECK(throws([&] { b = std::move(a); }));
    CHECK(a.pending() && b.pending());
    CHECK_EQ(check(wheel), "");
    CHECK_EQ(wheel.advance(5).fired, 1);
    CHECK_EQ(wheel.advance(7).fired, 1);
}

Test(binding, a_callback_timer_survives_a_vectors_failed_growth) {
    timer_wheel wheel;
    bool drops = false, never = false;
    std::vector<tvec::callback_timer<clumsy>> all;
    all.reserve(1);
    all.emplace_back(clumsy(drops));
    wheel.arm_after(all[0], 5);
    drops = true;
    CHECK(throws([&] { all.emplace_back(clumsy(never)); }));
    CHECK(all[0].pending());
    CHECK_EQ(wheel.advance(5).fired, 1);
}

Test(binding, assigning_a_callback_timer_moves_function_and_deadline) {
    struct adder {
        int* sum;
        std::vector<int> amounts;  // one that is moved to itself is empty
        void operator()() {
            for (const int amount : amounts) *sum += amount;
        }
    };
    timer_wheel wheel;
    int sum = 0;
    tvec::callback_timer a{adder{&sum, {1, 2}}}, b{adder{&sum, {10}}};
    wheel.arm_after(a, 5);
    wheel.arm_after(b, 7);
    b = std::move(a);
    auto& same = b;
    b = std::move(same);
    CHECK(!a.pending());
    CHECK_EQ(b.expires(), 5);
    CHECK_EQ(wheel.advance(7).fired, 1);
    CHECK_EQ(sum, 3);
}

Test(binding, a_callback_timer_moves_as_its_function_does) {
    struct fixed {
        fixed(fixed&&) = delete;
        void operator()() {}
    };
    const auto lambda = [n = 1] { static_cast<void>(n); };
    using of_lambda = tvec::callback_timer<std::remove_const_t<decltype(lambda)>>;
    using of_clumsy = tvec::callback_timer<clumsy>;
    static_assert(std::is_nothrow_move_constructible_v<of_lambda>);
    static_assert(!std::is_move_assignable_v<of_lambda>);
    static_assert(std::is_move_constructible_v<of_clumsy> && std::is_move_assignable_v<of_clumsy>);
    static_assert(!std::is_nothrow_move_constructible_v<of_clumsy>);
    static_assert(!std::is_move_constructible_v<tvec::callback_timer<fixed>>);
    static_assert(!std::is_copy_constructible_v<of_lambda>);
}

namespace {

struct derived : tvec::timer {};
struct derived_virtually : virtual tvec::timer {};

// Returns whether a class with a timer moves and assigns as its compiler writes it.
template <class T>
constexpr bool moves_as_a_whole =
    std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T>;

// Returns whether only a timer takes the place of a T.
template <class T>
constexpr bool is_sliced =
    std::is_constructible_v<tvec::timer, T> || std::is_assignable_v<tvec::timer&, T>;

}  // namespace

Test(binding, a_derived_timer_is_never_sliced) {
    const auto lambda = [] {};
    using of_lambda = tvec::callback_timer<std::remove_const_t<decltype(lambda)>>;
    static_assert(!is_sliced<of_lambda> && !is_sliced<of_lambda&> && !is_sliced<const of_lambda>);
    static_assert(!is_sliced<derived> && !is_sliced<derived&> && !is_sliced<derived_virtually>);
    static_assert(is_sliced<tvec::timer>, "or nothing is tested");
}

Test(binding, owners_and_derived_classes_of_timers_move) {
    static_assert(moves_as_a_whole<tvec::timer> && moves_as_a_whole<derived>);
    static_assert(std::is_nothrow_move_constructible_v<derived_virtually>);
    struct plain {
        void on_fire() { ++fired; }
        int fired = 0;
        tvec::timer t{tvec::call<&plain::t, &plain::on_fire>};
    };
    static_assert(moves_as_a_whole<plain>);
    timer_wheel wheel;
    std::vector<plain> all(1);
    wheel.arm_after(all[0].t, 5);
    all.emplace_back();
    all.emplace_back();
    wheel.advance(5);
    CHECK_EQ(all[0].fired, 1);
}
