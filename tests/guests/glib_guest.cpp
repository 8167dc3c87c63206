// A wheel in a main context of GLib: the promises of every guest. A GMainLoop runs until it is
// told to stop, so the host counts what is left.
#include "loops/hosts/glib.hpp"

#include <glib-unix.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace {

struct host {
    template <class Ticks> struct guest_on : tvec::guest<example::glib_host, Ticks> {
        guest_on(host& h, Ticks ticks)
            : tvec::guest<example::glib_host, Ticks>(h.context, ticks), own(h) {}
        void keep_running(bool on = true) { own.kept = on; }
        host& own;
    };

    ~host() {
        unwatch();
        g_main_context_unref(context);
    }
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(*this, ticks);
    }
    std::size_t run() {
        std::size_t turns = 0;
        for (stopped = false; !stopped && (left != 0 || kept); ++turns)
            g_main_context_iteration(context, TRUE);
        return turns;
    }
    void stop() { stopped = true; }
    void post(std::function<void()> f) { after({}, std::move(f)); }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        ++left;
        GSource* const s = g_timeout_source_new(static_cast<guint>(d.count()));
        const auto call = [](gpointer t) -> gboolean {
            --static_cast<task*>(t)->own->left;
            static_cast<task*>(t)->call();
            return G_SOURCE_REMOVE;
        };
        g_source_set_callback(s, call, new task{this, std::move(f)}, &forget);
        g_source_attach(s, context);
        g_source_unref(s);
    }
    void watch(int fd, std::function<void()> f) {
        ++left;
        GSource* const s = g_unix_fd_source_new(fd, G_IO_IN);
        const GUnixFDSourceFunc call = [](gint, GIOCondition, gpointer t) -> gboolean {
            static_cast<task*>(t)->call();
            return G_SOURCE_CONTINUE;
        };
        g_source_set_callback(s, G_SOURCE_FUNC(call), new task{this, std::move(f)}, &forget);
        g_source_attach(s, context);
        watched.push_back(s);
    }
    void unwatch() {
        for (GSource* const s : watched) g_source_destroy(s), g_source_unref(s), --left;
        watched.clear();
    }

    GMainContext* context = g_main_context_new();
    int left = 0;
    bool kept = false, stopped = false;

private:
    struct task {
        host* own;
        std::function<void()> call;
    };
    static void forget(gpointer t) { delete static_cast<task*>(t); }

    std::vector<GSource*> watched;
};

}  // namespace

#include "every_guest.hpp"
