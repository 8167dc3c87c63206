// Cases for tests/programs/mistakes.py, which compiles each by itself.

#include <array>

#include "tvec/tvec.hpp"

// --- call_each_of_a_single_timer
// says: the first argument points to a member that is a std::array of tvec::timer
// lines: 5
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call_each<&connection::idle, &connection::on_idle>()};
};

// --- call_each_that_is_not_called
// says: to be called: call_each<&k::timers, &k::on_timer>()
// lines: 6
struct connection {
    void on_phase();
    std::array<tvec::timer, 3> phases{tvec::call_each<&connection::phases, &connection::on_phase>};
};

// --- call_element_beyond_the_end
// says: the array has no such element
// lines: 5
struct connection {
    void on_timer();
    tvec::timer one[1]{tvec::timer{tvec::call_element<&connection::one, 1, &connection::on_timer>}};
};

// --- call_of_a_const_noexcept_method
// legal: it takes nothing
struct connection {
    void on_idle() const noexcept {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_a_function
// says: the second argument is a method: &connection::on_idle
// lines: 5
void on_idle();
struct connection {
    tvec::timer idle{tvec::call<&connection::idle, &on_idle>};
};

// --- call_of_a_method_alone
// says: first the timer, then the method
// lines: 5
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::on_idle>};
};

// --- call_of_a_method_of_a_base
// legal: the object has it
struct session {
    void on_idle() {}
};
struct connection : session {
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_a_method_of_another_class
// says: the timer and the method belong to the same object
// lines: 5
struct session {
    void on_idle();
};
struct connection {
    tvec::timer idle{tvec::call<&connection::idle, &session::on_idle>};
};

// --- call_of_a_method_that_returns_something
// legal: nobody asks for it
struct connection {
    int on_idle() { return 1; }
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_a_method_that_takes_the_clocked_wheel
// says: the method takes nothing, a tvec::timer_wheel&, a tvec::timer&, or both
// lines: 5
struct connection {
    void on_idle(tvec::clocked_wheel<>&) {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_a_method_that_takes_the_timer
// legal: it may ask which, and on what wheel
struct connection {
    void on_idle(tvec::timer_wheel&, tvec::timer&) {}
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_a_method_with_other_arguments
// says: the method takes nothing, a tvec::timer_wheel&, a tvec::timer&, or both
// lines: 5
struct connection {
    void on_idle(int);
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_a_private_method
// legal: inside the class it is no secret
class connection {
    void on_idle() {}
    tvec::timer idle_{tvec::call<&connection::idle_, &connection::on_idle>};
};

// --- call_of_a_static_method
// says: the second argument is a method: &connection::on_idle
// lines: 5
struct connection {
    static void on_idle();
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_of_an_overloaded_method
// g++ says: unable to deduce
// clang++ says: on_idle
// lines: 2
struct connection {
    void on_idle();
    void on_idle(int);
    tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_with_a_const_timer
// says: arming changes a timer: declare it without const
// lines: 5
struct connection {
    void on_idle();
    const tvec::timer idle{tvec::call<&connection::idle, &connection::on_idle>};
};

// --- call_with_a_member_that_is_no_timer
// says: the first argument points to a member that is a tvec::timer
// lines: 5
struct connection {
    void on_idle();
    int idle_for = 0;
    tvec::timer idle{tvec::call<&connection::idle_for, &connection::on_idle>};
};

// --- call_with_a_null_pointer
// says: the first argument points to a member that is a tvec::timer
// lines: 5
struct connection {
    void on_idle();
};
const auto callback = tvec::call<nullptr, &connection::on_idle>;

// --- call_with_an_array_of_timers
// says: each timer of an array has a callback of its own
// lines: 5
struct connection {
    void on_idle();
    tvec::timer timers[2]{tvec::timer{tvec::call<&connection::timers, &connection::on_idle>}};
};

// --- call_with_method_and_timer_swapped
// says: first the timer, then the method
// lines: 5
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::on_idle, &connection::idle>};
};

// --- call_with_the_timer_of_a_base
// legal: the object has it
struct session {
    tvec::timer idle;
};
struct connection : session {
    void on_idle() {}
    connection() { idle = tvec::timer{tvec::call<&connection::idle, &connection::on_idle>}; }
};

// --- call_with_the_timer_of_a_virtual_base
// says: a timer in a virtual base does not know its object
// lines: 5
struct session {
    tvec::timer idle;
};
struct connection : virtual session {
    void on_idle() {}
    connection() { idle = tvec::timer{tvec::call<&session::idle, &connection::on_idle>}; }
};

// --- call_with_the_timer_of_another_class
// says: the timer and the method belong to the same object
// lines: 5
struct session {
    tvec::timer idle;
};
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&session::idle, &connection::on_idle>};
};

// --- call_with_timer_and_method_of_two_bases
// says: or to two bases of a class that is named: tvec::call<timer, method, class>
// lines: 5
struct session {
    tvec::timer idle;
};
struct listener {
    void on_idle() {}
};
struct connection : session, listener {
    connection() { idle = tvec::timer{tvec::call<&connection::idle, &connection::on_idle>}; }
};

// --- call_without_addresses
// says: a pointer to the timer: &connection::idle
// g++ says: call takes a pointer to it: &connection::idle
// lines: 9
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<connection::idle, connection::on_idle>};
};

// --- call_without_the_address_of_the_method
// says: a pointer to the method: &connection::on_idle
// g++ says: 'void (connection::)()' to type 'void (connection::*)()'
// lines: 8
struct connection {
    void on_idle();
    tvec::timer idle{tvec::call<&connection::idle, connection::on_idle>};
};

// --- owner_of_a_member_that_is_no_timer
// says: the first argument points to a member that is a tvec::timer
// lines: 4
struct connection {
    int idle_for = 0;
};
connection& connection_of(tvec::timer& t) { return tvec::owner_of<&connection::idle_for>(t); }
