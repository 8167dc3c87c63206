// A wheel in GLib's main loop, which stays as it is: one source of its own sets the alarm before
// each sleep, and runs the wheel after it. Timeouts of GLib are a source each, and the loop walks
// all of its sources in every turn. Programs on GTK and GStreamer have this loop.
#include <glib-unix.h>
#include <glib.h>

#include "conversation.hpp"
#include "mailbox.hpp"

namespace {

struct program {
    example::timers timers;
    example::conversation talk{timers};
    tvec::timerfd_alarm<example::timers> alarm{timers};
    example::mailbox mailbox{timers, 4};
    GMainLoop* loop = nullptr;
};

// GLib allocates the source, and the program is behind it.
struct wheel_source {
    GSource base;
    program* p;
    gpointer ring;
};

gboolean before_sleep(GSource* s, gint*) {
    reinterpret_cast<wheel_source*>(s)->p->alarm.rearm();
    return FALSE;  // not ready yet
}

gboolean is_due(GSource* s) {
    return g_source_query_unix_fd(s, reinterpret_cast<wheel_source*>(s)->ring) != 0;
}

gboolean on_alarm(GSource* s, GSourceFunc, gpointer) {
    program& p = *reinterpret_cast<wheel_source*>(s)->p;
    p.alarm.acknowledge();
    p.timers.run(256);
    if (p.talk.over()) g_main_loop_quit(p.loop);
    return G_SOURCE_CONTINUE;
}

gboolean on_socket(gint, GIOCondition, gpointer p) {
    static_cast<program*>(p)->talk.on_readable();
    return G_SOURCE_CONTINUE;
}

gboolean on_mail(gint, GIOCondition, gpointer data) {
    program& p = *static_cast<program*>(data);
    p.mailbox.on_readable();  // takes in what other threads have sent
    if (p.talk.over()) g_main_loop_quit(p.loop);
    return G_SOURCE_CONTINUE;
}

}  // namespace

int main() {
    program p;
    p.loop = g_main_loop_new(nullptr, FALSE);
    p.talk.let_in(p.mailbox.sender());
    static GSourceFuncs functions{before_sleep, is_due, on_alarm, nullptr, nullptr, nullptr};
    GSource* const source = g_source_new(&functions, sizeof(wheel_source));
    auto* const wheel = reinterpret_cast<wheel_source*>(source);
    wheel->p = &p;
    wheel->ring = g_source_add_unix_fd(source, p.alarm.fd(), G_IO_IN);
    g_source_attach(source, nullptr);
    const guint socket = g_unix_fd_add(p.talk.fd(), G_IO_IN, on_socket, &p);
    const guint mail = g_unix_fd_add(p.mailbox.fd(), G_IO_IN, on_mail, &p);
    g_main_loop_run(p.loop);
    g_source_remove(mail);
    g_source_remove(socket);
    g_source_destroy(source);
    g_source_unref(source);
    g_main_loop_unref(p.loop);
    return p.talk.verdict("GLib");
}
