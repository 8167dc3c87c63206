#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

_Static_assert(sizeof(ngx_msec_t) == sizeof(uint64_t), "milliseconds are the wheel's ticks");
_Static_assert(sizeof(struct tvec_timer) <= sizeof(ngx_rbtree_node_t), "an event must not grow");

struct tvec_wheel ngx_event_timers;

ngx_int_t ngx_event_timer_init(ngx_log_t* log) {
    static bool is_made;
    (void)log;
    if (is_made) tvec_wheel_destroy(&ngx_event_timers);
    is_made = true;
    tvec_wheel_init(&ngx_event_timers, ngx_current_msec);
    return NGX_OK;
}

ngx_msec_t ngx_event_find_timer(void) {
    const uint64_t wakeup = tvec_next_wakeup(&ngx_event_timers);
    if (wakeup == TVEC_NEVER) return NGX_TIMER_INFINITE;
    return wakeup > ngx_current_msec ? wakeup - ngx_current_msec : 0;
}

void ngx_event_expire_timers(void) {
    tvec_advance(&ngx_event_timers, ngx_current_msec, TVEC_UNLIMITED);
}

void ngx_event_timer_fired(struct tvec_wheel* timers, struct tvec_timer* timer) {
    ngx_event_t* ev = TVEC_OWNER_OF(timer, ngx_event_t, timer);
    (void)timers;
    ev->timer_set = 0;
    ev->timedout = 1;
    ev->handler(ev);
}

static bool need_not_be_waited_for(void* context, struct tvec_timer* timer) {
    (void)context;
    return TVEC_OWNER_OF(timer, ngx_event_t, timer)->cancelable;
}

ngx_int_t ngx_event_no_timers_left(void) {
    const bool none = tvec_for_each_pending(&ngx_event_timers, need_not_be_waited_for, NULL);
    return none ? NGX_OK : NGX_AGAIN;
}
