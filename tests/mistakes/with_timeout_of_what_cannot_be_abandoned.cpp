// says: what is awaited cannot be abandoned: its destructor does nothing
// lines: 4
#include "tvec/tvec.hpp"

using namespace std::chrono_literals;

struct awaiter {
    bool await_ready() { return false; }
    void await_suspend(std::coroutine_handle<>) {}
    int await_resume() { return 1; }
};
auto ask(tvec::clocked_wheel<>& w) { return tvec::with_timeout(w, awaiter{}, 1ms); }
