// The timers of nginx, on tvec in the place of its red-black tree: same name, same interface.
// One tick of the wheel is a millisecond of ngx_current_msec.
#ifndef _NGX_EVENT_TIMER_H_INCLUDED_
#define _NGX_EVENT_TIMER_H_INCLUDED_

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

/// The answer of ngx_event_find_timer when there is nothing to wait for.
#define NGX_TIMER_INFINITE ((ngx_msec_t)-1)

/// The timers of this process.
extern struct tvec_wheel ngx_event_timers;

/// Makes the wheel, or makes it anew and leaves no timer in it.
ngx_int_t ngx_event_timer_init(ngx_log_t* log);

/// How long the process may sleep. It may be less than until the first timer.
ngx_msec_t ngx_event_find_timer(void);

/// Calls the handlers of all that is due at ngx_current_msec.
void ngx_event_expire_timers(void);

/// NGX_OK if no timer is set, or none but those that need not be waited for (cancelable).
ngx_int_t ngx_event_no_timers_left(void);

/// Called by the wheel for an event whose timer is due.
void ngx_event_timer_fired(struct tvec_wheel* timers, struct tvec_timer* timer);

/// Sees to it that the event's handler is called in `delay` milliseconds, and not when it was going
/// to be. A store, if the timer hangs in the wheel and is not to come earlier than it was to.
static ngx_inline void ngx_event_add_timer(ngx_event_t* ev, ngx_msec_t delay) {
    ngx_log_debug2(NGX_LOG_DEBUG_EVENT, ev->log, 0, "event timer add: %d: %M",
                   ngx_event_ident(ev->data), delay);
    ev->timer.fire = ngx_event_timer_fired;
    tvec_arm_at(&ngx_event_timers, &ev->timer, ngx_current_msec + delay);
    ev->timer_set = 1;
}

/// Sees to it that the timer does not call its handler. A store, if the event is a connection's:
/// that is likely to be armed again, and ngx_free_connection unlinks it. Any other may be freed.
static ngx_inline void ngx_event_del_timer(ngx_event_t* ev) {
    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, ev->log, 0, "event timer del: %d",
                   ngx_event_ident(ev->data));
    if (ev->of_connection)
        tvec_cancel(&ev->timer);
    else
        tvec_unlink(&ev->timer);
    ev->timer_set = 0;
}

#endif
