/* Random calls of the table of deadlines, compared with an array: for AddressSanitizer. Names have
 * up to 600 bytes, so that some do not fit into a record. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadlines.h"
#include "redismodule.h"

enum { names = 3000, steps = 300000 };

static struct calendar calendar;
static uint64_t wanted[names]; /* deadlines; 0: none */
static size_t held, fired, now = 1000;

static uint64_t draw(uint64_t below) {
    static uint64_t drawn = 88172645463325252u; /* Marsaglia's xorshift */
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn % below;
}

static size_t write_name(char* name, size_t i) {
    const size_t length = i % 7 ? 4 + i % 20 : 200 + i % 400;
    memset(name, 'x', length);
    memcpy(name, &i, 4);
    return length;
}

static void forget(size_t i) {
    held -= wanted[i] != 0;
    wanted[i] = 0;
}

static void on_due(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    struct bucket* bucket = TVEC_OWNER_OF(timer, struct bucket, timer);
    const char* bytes;
    size_t length, opened = 0, i = 0;
    uint64_t deadline;
    calendar.firing = true;
    for (; deadlines_overdue(bucket, now, &bytes, &length, &deadline); ++opened) {
        char copy[600];
        memcpy(copy, bytes, length);
        memcpy(&i, bytes, 4);
        assert(wanted[i] == deadline && deadline < now);
        forget(i);
        deadlines_drop(bucket->table, copy, length, deadlines_hash(copy, length));
    }
    calendar.firing = false;
    fired += opened;
    deadlines_arm(bucket);
    deadlines_shrink(bucket->table, opened);
}

static void step(struct deadlines* table) {
    char name[600];
    const size_t i = draw(names), length = write_name(name, i);
    const uint64_t hash = deadlines_hash(name, length);
    if (draw(3) == 0) {
        const bool was_known = deadlines_drop(table, name, length, hash);
        assert(was_known == (wanted[i] != 0));
        forget(i);
        return;
    }
    held += wanted[i] == 0;
    wanted[i] = now + 1 + draw(draw(8) ? 5000 : 5000000);
    deadlines_set(table, name, length, hash, wanted[i]);
}

static void check(struct deadlines* table) {
    const char* fault = deadlines_fault(table);
    if (fault || table->keys != held) {
        fprintf(stderr, "table_model: %s, %zu keys of %zu\n", fault, table->keys, held);
        exit(1);
    }
    for (size_t i = 0; i < names; ++i) assert(wanted[i] == 0 || wanted[i] >= now);
}

int main(void) {
    RedisModule_Alloc = malloc;
    RedisModule_Realloc = realloc;
    RedisModule_Free = free;
    calendar = (struct calendar){.wheel = tvec_wheel_new(now), .fire = on_due};
    struct deadlines* table = deadlines_new(&calendar, 0);
    for (int i = 0; i < steps; ++i) {
        step(table);
        if (i % 50) continue;
        now += draw(30);
        if (i % 60000 == 0) now += 1000000; /* nearly all are due */
        tvec_advance(calendar.wheel, now, TVEC_UNLIMITED);
        check(table);
    }
    while (!deadlines_free_some(table, 3)) {
    }
    assert(calendar.bytes == 0);
    tvec_wheel_free(calendar.wheel);
    printf("%d calls, %zu keys due, and nothing lost\n", steps, fired);
    return 0;
}
