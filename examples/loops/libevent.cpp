// A wheel as a guest of libevent, around an unchanged event_base_dispatch. Other threads wake the
// loop by a descriptor.
#include <event2/event.h>

#include <memory>
#include <stdexcept>

#include "conversation.hpp"
#include "mailbox.hpp"
#include "tvec/guests/libevent_guest.hpp"

namespace {

using base_pointer = std::unique_ptr<event_base, decltype(&event_base_free)>;
using event_pointer = std::unique_ptr<event, decltype(&event_free)>;

// Without precise timers libevent reads a clock that ticks every few milliseconds.
base_pointer precise_base() {
    const std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(),
                                                                             event_config_free);
    if (!config || event_config_set_flag(config.get(), EVENT_BASE_FLAG_PRECISE_TIMER) != 0)
        throw std::runtime_error("libevent: no configuration");
    base_pointer base(event_base_new_with_config(config.get()), event_base_free);
    if (!base) throw std::runtime_error("libevent: no base");
    return base;
}

// Calls on_readable() of an object whenever its descriptor is readable.
template <class Object> event_pointer watch(event_base* base, Object& object) {
    const auto call = [](evutil_socket_t, short, void* o) {
        static_cast<Object*>(o)->on_readable();
    };
    event_pointer e(event_new(base, object.fd(), EV_READ | EV_PERSIST, call, &object), event_free);
    if (!e || event_add(e.get(), nullptr) != 0) throw std::runtime_error("libevent: no event");
    return e;
}

}  // namespace

int main() {
    const base_pointer base = precise_base();
    tvec::libevent_guest timers{base.get()};
    example::conversation talk(*timers);
    example::mailbox mailbox(*timers, 4);
    talk.let_in(mailbox.sender());
    talk.when_over([&] { event_base_loopbreak(base.get()); });
    const event_pointer socket = watch(base.get(), talk);
    const event_pointer mail = watch(base.get(), mailbox);
    if (event_base_dispatch(base.get()) < 0) throw std::runtime_error("libevent: the loop failed");
    return talk.verdict("libevent");
}
