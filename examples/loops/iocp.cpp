// A wheel in a loop on an I/O completion port, for Windows. A waitable timer carries the wake-up:
// it calls a function on the thread that waits alertably, and so ends the wait. A timer of high
// resolution (Windows 10, 1803) does not wait for the next tick of the system. Older systems refuse
// it, and get an ordinary one: up to 16 ms late, as is the timeout of the wait itself. Run by wine,
// which is up to a millisecond late. Not run on Windows.
#include <windows.h>

#include <algorithm>

#include "conversation.hpp"

namespace {

using example::timers;
enum key : ULONG_PTR { from_talker, from_threads };

void check(bool succeeded, const char* tried) {
    if (!succeeded)
        throw std::system_error(static_cast<int>(GetLastError()), std::system_category(), tried);
}

HANDLE make_waitable_timer() {
    constexpr DWORD high_resolution = 2;  // CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, of newer SDKs
    for (const DWORD flags : {high_resolution, DWORD{0}})
        if (const HANDLE made = CreateWaitableTimerExW(nullptr, nullptr, flags, TIMER_ALL_ACCESS))
            return made;
    check(false, "CreateWaitableTimerEx");
}

// Sees to it that an alertable wait ends at the next wake-up, or before. `set` is the time for
// which the timer is set. It is only ever moved earlier.
void rearm(HANDLE timer, timers& wheel, timers::time_point& set) {
    using units = std::chrono::duration<LONGLONG, std::ratio<1, 10'000'000>>;
    const auto wakeup = wheel.next_wakeup();
    if (!wakeup || *wakeup >= set) return;
    set = *wakeup;
    LARGE_INTEGER due;
    due.QuadPart =
        -std::max(std::chrono::ceil<units>(set - wheel.now()), units(1)).count();  // from now on
    const auto on_due = [](void* t, DWORD, DWORD) {
        *static_cast<timers::time_point*>(t) = timers::time_point::max();
    };
    check(SetWaitableTimer(timer, &due, 0, on_due, &set, FALSE), "SetWaitableTimer");
}

}  // namespace

int main() {
    const HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, nullptr, 0, 1);
    check(port != nullptr, "CreateIoCompletionPort");
    const auto post = [port](key k) {
        return PostQueuedCompletionStatus(port, 1, k, nullptr) != 0;
    };
    timers wheel;
    example::conversation talk(wheel, [&] { return post(from_talker); });  // as a socket would
    tvec::mailbox<> mailbox(wheel, 4, [post] { post(from_threads); });
    talk.let_in(mailbox.sender());
    const HANDLE timer = make_waitable_timer();
    auto set = timers::time_point::max();
    std::array<OVERLAPPED_ENTRY, 64> done;
    while (!talk.over()) {
        mailbox.rearm();
        rearm(timer, wheel, set);  // the last thing before the sleep
        ULONG n = 0;
        if (!GetQueuedCompletionStatusEx(port, done.data(), 64, &n, INFINITE, TRUE)) {
            check(GetLastError() == WAIT_IO_COMPLETION, "GetQueuedCompletionStatusEx");
            n = 0;  // the alarm
        }
        for (ULONG i = 0; i < n; ++i)
            if (done[i].lpCompletionKey == from_talker) talk.on_words(1);
        mailbox.run(128);  // what other threads have sent
        wheel.run(256);    // always, whatever woke us
    }
    CloseHandle(timer);
    CloseHandle(port);
    return talk.verdict("IOCP");
}
