#include <stdio.h>
#include <tvec/tvec.h>

struct connection {
    struct tvec_timer idle;
};

static void on_idle(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    struct connection* client = TVEC_OWNER_OF(timer, struct connection, idle);
    printf("%p: nothing heard for 20 ticks, closing at %llu\n", (void*)client,
           (unsigned long long)tvec_now(wheel));
}

int main(void) {
    struct connection client = {TVEC_TIMER_INIT(on_idle)};
    struct tvec_wheel* wheel = tvec_wheel_new(0);
    tvec_arm_after(wheel, &client.idle, 20);  // and again at every read
    while (tvec_any_pending(wheel)) tvec_advance(wheel, tvec_now(wheel) + 1, TVEC_UNLIMITED);
    tvec_wheel_free(wheel);
}
