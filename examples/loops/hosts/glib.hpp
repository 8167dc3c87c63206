// A host for tvec::guest in a main context of GLib, which also is that of GTK: to be copied.
//
//     tvec::guest<example::glib_host> timers{context};  // nullptr: the default one
//     timers->arm_after(session.idle, 30s);
//     g_main_loop_run(loop);
//
// Guest and context may be destroyed in either order. Exceptions of callbacks end the program.
#pragma once

#include <glib.h>

#include <chrono>

#include "tvec/guests/guest.hpp"

namespace example {

// One source with a ready time, which counts in microseconds of steady_clock.
class glib_host {
public:
    glib_host(tvec::guest_turn turn, GMainContext* context) : turn_(turn) {
        static GSourceFuncs calls{nullptr, nullptr, &ring, nullptr, nullptr, nullptr};
        alarm_ = g_source_new(&calls, sizeof(GSource));
        g_source_set_callback(alarm_, nullptr, this, nullptr);
        g_source_attach(alarm_, context);
    }
    ~glib_host() {
        g_source_destroy(alarm_);
        g_source_unref(alarm_);
    }
    glib_host(const glib_host&) = delete;
    glib_host& operator=(const glib_host&) = delete;

    void set_alarm(std::chrono::steady_clock::time_point t) noexcept {
        const auto at = std::chrono::ceil<std::chrono::microseconds>(t.time_since_epoch());
        g_source_set_ready_time(alarm_, t == t.max() ? -1 : at.count());
    }

private:
    static gboolean ring(GSource*, GSourceFunc, gpointer host) noexcept {
        static_cast<glib_host*>(host)->turn_();
        return G_SOURCE_CONTINUE;
    }

    tvec::guest_turn turn_;
    GSource* alarm_;
};

}  // namespace example
