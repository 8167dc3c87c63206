// A stand-in for kqueue on Linux: what examples/loops/kqueue.cpp calls, over ppoll. A program has
// one queue, whose descriptor is the event of EVFILT_USER. A call changes one thing, or waits.
#pragma once

#include <cstdint>
#include <ctime>
#include <poll.h>
#include <sys/eventfd.h>
#include <vector>

enum : short { EVFILT_READ = -1, EVFILT_USER = -11 };
enum : unsigned short { EV_ADD = 0x0001, EV_CLEAR = 0x0020 };
enum : unsigned { NOTE_TRIGGER = 0x01000000 };

struct kevent {
    std::uintptr_t ident;
    short filter;
    unsigned short flags;
    unsigned fflags;
    std::intptr_t data;
    void* udata;
};

#define EV_SET(event, ...) (*(event) = {__VA_ARGS__})

inline int kqueue() { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

inline int kevent(int queue, const struct kevent* change, int, struct kevent* events, int capacity,
                  const timespec* timeout) {
    static std::vector<struct kevent> watched;
    static std::vector<pollfd> fds;
    if (change != nullptr) {
        if (change->fflags == NOTE_TRIGGER) return eventfd_write(queue, 1);
        const bool is_user = change->filter == EVFILT_USER;
        watched.push_back(*change);
        fds.push_back({is_user ? queue : static_cast<int>(change->ident), POLLIN, 0});
        return 0;
    }
    if (ppoll(fds.data(), fds.size(), timeout, nullptr) < 0) return -1;
    int n = 0;
    for (std::size_t i = 0; i < fds.size() && n < capacity; ++i) {
        if (fds[i].revents == 0) continue;
        events[n++] = watched[i];
        eventfd_t rings = 0;
        if (fds[i].fd == queue) eventfd_read(queue, &rings);
    }
    return n;
}
