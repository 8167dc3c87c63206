// A wheel in a loop on kqueue, for macOS and the BSDs. The timeout of kevent carries the wake-up,
// in nanoseconds. An EVFILT_TIMER would need a system call for each earlier wake-up, and its
// absolute time is the time of day. Both may be late on purpose, to save power: on FreeBSD by up
// to a sixteenth of the sleep. Run on Linux, with libkqueue 2.7 and with the stand-in in
// tests/support/kqueue. Compiled and linked for macOS, never run there or on a BSD.
#include <sys/event.h>
#include <sys/time.h>

#include <algorithm>
#include <ctime>

#include "conversation.hpp"

namespace {

int check(int result, const char* tried) {
    if (result < 0 && errno != EINTR) throw std::system_error(errno, std::system_category(), tried);
    return result;
}

void change(int queue, int ident, short filter, unsigned short flags, unsigned filter_flags) {
    struct kevent wanted;
    EV_SET(&wanted, static_cast<std::uintptr_t>(ident), filter, flags, filter_flags, 0, nullptr);
    check(kevent(queue, &wanted, 1, nullptr, 0, nullptr), "kevent");
}

// The time until the next wake-up, 0 if that is past. At most a day: kernels refuse much longer
// ones, and a wake-up too many is harmless.
timespec until_next_wakeup(example::timers& timers) {
    using namespace std::chrono;
    const auto now = timers.now();
    const nanoseconds left = timers.next_wakeup().value_or(now + days(1)) - now;
    const auto ns = std::clamp<nanoseconds>(left, nanoseconds(0), days(1)).count();
    return {static_cast<std::time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

int main() {
    example::timers timers;
    example::conversation talk(timers);
    const int loop = check(kqueue(), "kqueue");
    change(loop, talk.fd(), EVFILT_READ, EV_ADD, 0);
    change(loop, 0, EVFILT_USER, EV_ADD | EV_CLEAR, 0);
    tvec::mailbox<> mailbox(timers, 4, [loop] { change(loop, 0, EVFILT_USER, 0, NOTE_TRIGGER); });
    talk.let_in(mailbox.sender());
    std::array<struct kevent, 64> events;
    while (!talk.over()) {
        mailbox.rearm();
        const timespec timeout = until_next_wakeup(timers);
        const int n = check(kevent(loop, nullptr, 0, events.data(), 64, &timeout), "kevent");
        for (int i = 0; i < n; ++i)
            if (events[static_cast<unsigned>(i)].filter == EVFILT_READ) talk.on_readable();
        mailbox.run(128);  // what other threads have sent
        timers.run(256);   // always, whatever woke us
    }
    ::close(loop);
    return talk.verdict("kqueue");
}
