// A wheel in an event loop of systemd: the promises of every guest. sd_event_loop runs until it is
// told to stop, so the host counts what is left.
#include "loops/hosts/sd_event.hpp"

#include <sys/epoll.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace {

struct host {
    template <class Ticks> struct guest_on : tvec::guest<example::sd_event_host, Ticks> {
        guest_on(host& h, Ticks ticks)
            : tvec::guest<example::sd_event_host, Ticks>(h.loop, ticks), own(h) {}
        void keep_running(bool on = true) { own.kept = on; }
        host& own;
    };

    host() { sd_event_new(&loop); }
    ~host() {
        unwatch();
        for (sd_event_source* const s : timed) sd_event_source_disable_unref(s);
        sd_event_unref(loop);
    }
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(*this, ticks);
    }
    std::size_t run() {
        std::size_t turns = 0;
        for (stopped = false; !stopped && (left != 0 || kept); ++turns)
            sd_event_run(loop, UINT64_MAX);
        return turns;
    }
    void stop() { stopped = true; }
    void post(std::function<void()> f) { after({}, std::move(f)); }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        ++left;
        const auto call = [](sd_event_source* s, std::uint64_t, void* t) {
            auto& own = *static_cast<task*>(t);
            sd_event_source_set_enabled(s, SD_EVENT_OFF);
            --own.own->left;
            own.call();
            return 0;
        };
        tasks.push_back(std::make_unique<task>(task{this, std::move(f)}));
        sd_event_source* s = nullptr;
        const auto us = static_cast<std::uint64_t>(d.count()) * 1000;
        need(
            sd_event_add_time_relative(loop, &s, CLOCK_MONOTONIC, us, 1, call, tasks.back().get()));
        timed.push_back(s);
    }
    void watch(int fd, std::function<void()> f) {
        ++left;
        const auto call = [](sd_event_source*, int, std::uint32_t, void* t) {
            static_cast<task*>(t)->call();
            return 0;
        };
        tasks.push_back(std::make_unique<task>(task{this, std::move(f)}));
        sd_event_source* s = nullptr;
        need(sd_event_add_io(loop, &s, fd, EPOLLIN, call, tasks.back().get()));
        watched.push_back(s);
    }
    void unwatch() {
        for (sd_event_source* const s : watched) sd_event_source_disable_unref(s), --left;
        watched.clear();
    }

    sd_event* loop = nullptr;
    int left = 0;
    bool kept = false, stopped = false;

private:
    struct task {
        host* own;
        std::function<void()> call;
    };
    static void need(int result) {
        if (result < 0) std::abort();
    }

    std::vector<std::unique_ptr<task>> tasks;
    std::vector<sd_event_source*> timed, watched;
};

}  // namespace

#include "every_guest.hpp"
