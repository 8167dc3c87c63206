// The code of docs/from-netty.md. Exits with 1 if the pool does not do what that page says.
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

namespace {

struct session {
    void give_up() { given_up = true; }
    bool given_up = false;
};

}  // namespace

int main() {
    session session;
    // [pool]
    tvec::clocked_wheel timers;  // ticks of one millisecond, steady_clock
    tvec::timeout_pool pool(timers);
    const auto reply = pool.schedule(250ms, [&session] { session.give_up(); });
    pool.cancel(reply.handle);
    timers.run();  // once per turn of your loop
    // [pool]
    return session.given_up || pool.pending() != 0;
}
