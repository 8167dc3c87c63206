// A wheel in the event loop of a browser or of node, by emscripten. main returns, and the loop goes
// on: one setTimeout carries the next wake-up, in whole milliseconds. Browsers wait at least 4 ms
// when timeouts set each other five deep, and a second or longer in a hidden page. Run by node,
// and by Chromium in a visible page: about a millisecond late in both.
#include <emscripten/emscripten.h>
#include <emscripten/eventloop.h>

#include "conversation.hpp"

namespace {

struct program {
    // Each callback of the loop ends with it.
    void turn() {
        timers_.run(256);
        emscripten_clear_timeout(alarm_);
        if (talk_.over()) emscripten_force_exit(talk_.verdict("setTimeout"));
        if (const int left = timers_.wait_ms(); left >= 0)
            alarm_ = emscripten_set_timeout(on_alarm, left, this);
    }
    static void on_alarm(void* self) { static_cast<program*>(self)->turn(); }

    bool say() {  // as a message from the network would come
        emscripten_async_call(on_message, this, 0);
        return true;
    }
    static void on_message(void* self) {
        static_cast<program*>(self)->talk_.on_words(1);
        static_cast<program*>(self)->turn();
    }

    example::timers timers_;
    example::conversation talk_{timers_, [this] { return say(); }};
    long alarm_ = 0;
};

}  // namespace

int main() {
    static program p;
    p.turn();
}
