/* A module for Redis 7.0 or later that has keys expire when they are due.
 *
 * Redis tells the module which keys were given a deadline. The module keeps the deadlines on a
 * wheel, and opens each key when it is due. Redis then finds that the key has expired, and does all
 * the rest itself: it deletes the key, publishes the event, and tells replicas, the AOF, and
 * clients that watch or track the key.
 *
 * All work is done in turns: as a callback of a timer of Redis, since only its context propagates
 * to replicas what is deleted. The timer is started when a timerfd rings, and fires in the same
 * pass of the event loop. A timer of Redis that waits would not let the module be unloaded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "deadlines.h"
#include "redismodule.h"

typedef RedisModuleCtx ctx_t;
typedef RedisModuleString string_t;

enum {
    pending_size = 128,   /* keys whose deadlines are read together */
    look_after_us = 1000, /* after an event, and between turns that leave work over */
    paused_us = 10000,    /* until it is asked again whether clients are still paused */
    least_turn_us = 100,
    lag_classes = 18, /* 1, 2, 4, ... 65536 ms, and more */
};

/* A key that had an event since the last turn. Its command may still run. Opening an expired key
 * deletes it, and the deletion must not reach replicas before the command. */
struct pending {
    string_t* name;
    int db;
    bool has_lost; /* its deadline: it need not be opened */
};

static struct state {
    ctx_t* ctx; /* for timers */
    struct calendar calendar;
    struct deadlines** tables; /* by database; NULL: no keys */
    struct deadlines* discarded;
    int databases;
    struct pending* pending; /* a ring */
    size_t pending_first, pending_count, pending_room;
    bool is_cluster;

    int alarm_fd;
    int64_t alarm_us; /* what it is set for, by the wall clock */
    int64_t turn_end_us;
    int64_t key_ns;                /* to expire a key, by the last turn that did many */
    unsigned long long by_sampler; /* keys expired by Redis itself: half of each turn before */
    bool turn_asked;
    RedisModuleTimerID turn_timer;

    RedisModuleScanCursor* scan; /* NULL: all keys are known */
    int scan_db;
    bool is_replica, is_loading, is_active;
    long long max_turn_us;

    unsigned long long expired, vain, turns, lag[lag_classes];
    int64_t longest_turn_us;
} me;

/* --- time ------------------------------------------------------------------------------------ */

static int64_t microseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static uint64_t wall_ms(void) { return (uint64_t)microseconds(CLOCK_REALTIME) / 1000; }

/* Sets the alarm, unless it rings before. It also rings when the wall clock is set. */
static void ring_at(int64_t when_us) {
    if (when_us >= me.alarm_us) return;
    me.alarm_us = when_us;
    const struct itimerspec when = {
        .it_value = {.tv_sec = when_us / 1000000, .tv_nsec = when_us % 1000000 * 1000}};
    timerfd_settime(me.alarm_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL);
}

static void ring_after(int64_t delay_us) { ring_at(microseconds(CLOCK_REALTIME) + delay_us); }

static void take_turn(ctx_t* ctx, void* unused);

static void ask_for_turn(void) {
    if (me.turn_asked) return;
    me.turn_asked = true;
    me.turn_timer = RedisModule_CreateTimer(me.ctx, 0, take_turn, NULL);
}

static void on_alarm(int fd, void* unused, int mask) {
    (void)unused, (void)mask;
    uint64_t times;
    if (read(fd, &times, sizeof times) < 0 && errno == EAGAIN)
        return; /* ECANCELED: clock was set */
    me.alarm_us = INT64_MAX;
    ask_for_turn();
}

/* A replica leaves keys to its master. The operator may leave them to the sampler. */
static bool is_on(void) { return me.is_active && !me.is_replica && !me.is_loading; }

/* --- tables ---------------------------------------------------------------------------------- */

static void set(int db, string_t* name, uint64_t hash, uint64_t deadline) {
    size_t length;
    const char* bytes = RedisModule_StringPtrLen(name, &length);
    if (!me.tables[db]) me.tables[db] = deadlines_new(&me.calendar, db);
    deadlines_set(me.tables[db], bytes, length, hash, deadline);
}

static void drop(int db, string_t* name, uint64_t hash) {
    if (!me.tables[db]) return;
    size_t length;
    const char* bytes = RedisModule_StringPtrLen(name, &length);
    deadlines_drop(me.tables[db], bytes, length, hash);
}

static uint64_t hash_of(string_t* name) {
    size_t length;
    const char* bytes = RedisModule_StringPtrLen(name, &length);
    return deadlines_hash(bytes, length);
}

/* Forgets all keys of a database. Their memory is freed by turns. */
static void discard(int db) {
    struct deadlines* table = me.tables[db];
    if (!table) return;
    table->discarded = true;
    table->next = me.discarded;
    me.discarded = table;
    me.tables[db] = NULL;
    ring_after(look_after_us);
}

static void discard_all(void) {
    for (int db = 0; db < me.databases; ++db) discard(db);
}

/* --- a key ----------------------------------------------------------------------------------- */

/* Opens a key, which Redis deletes if it has expired. For writing: reading would count as a hit.
 * Returns the deadline. Without one, the key has none, or is not there. */
static mstime_t open_key(ctx_t* ctx, string_t* name, bool* is_there) {
    RedisModuleKey* key = RedisModule_OpenKey(
        ctx, name, REDISMODULE_READ | REDISMODULE_WRITE | REDISMODULE_OPEN_KEY_NOTOUCH);
    const mstime_t deadline = RedisModule_GetAbsExpire(key);
    *is_there =
        deadline != REDISMODULE_NO_EXPIRE || RedisModule_KeyType(key) != REDISMODULE_KEYTYPE_EMPTY;
    RedisModule_CloseKey(key);
    return deadline;
}

static struct pending* pending_at(size_t i) {
    return &me.pending[(me.pending_first + i) & (me.pending_room - 1)];
}

static mstime_t deadline_of(ctx_t* ctx, const struct pending* key) {
    if (key->has_lost) return REDISMODULE_NO_EXPIRE;
    RedisModule_SelectDb(ctx, key->db);
    bool is_there;
    const mstime_t deadline = open_key(ctx, key->name, &is_there);
    /* Expired, and kept while clients are paused. */
    return is_there || !RedisModule_AvoidReplicaTraffic() ? deadline : 0;
}

/* Moves the pending keys to a ring with room for so many, a power of two. */
static void resize_pending(size_t room) {
    struct pending* ring = RedisModule_Alloc(room * sizeof *ring);
    for (size_t i = 0; i < me.pending_count; ++i) ring[i] = *pending_at(i);
    RedisModule_Free(me.pending);
    me.pending = ring;
    me.pending_first = 0;
    me.pending_room = room;
}

/* Brings the tables up to date with the first pending keys. All are opened first, while their
 * buckets are fetched into the cache. In a cluster no key may be opened inside a command: the
 * server would look for it in the slot of that command. */
static void read_pending(ctx_t* ctx) {
    struct pending keys[pending_size];
    uint64_t hashes[pending_size];
    mstime_t deadlines[pending_size];
    struct bucket* buckets[pending_size];
    const size_t count = me.pending_count < pending_size ? me.pending_count : pending_size;
    for (size_t i = 0; i < count; ++i) keys[i] = *pending_at(i);
    me.pending_first += count;
    me.pending_count -= count;
    if (me.pending_count == 0 && me.pending_room > pending_size) resize_pending(pending_size);
    for (size_t i = 0; i < count; ++i) {
        struct deadlines* table = me.tables[keys[i].db];
        hashes[i] = hash_of(keys[i].name);
        buckets[i] = table ? deadlines_prefetch(table, hashes[i]) : NULL;
        deadlines[i] = deadline_of(ctx, &keys[i]);
    }
    for (size_t i = 0; i < count; ++i)
        if (buckets[i]) deadlines_prefetch_keys(buckets[i]);
    for (size_t i = 0; i < count; ++i) {
        if (deadlines[i] == REDISMODULE_NO_EXPIRE)
            drop(keys[i].db, keys[i].name, hashes[i]);
        else
            set(keys[i].db, keys[i].name, hashes[i], (uint64_t)deadlines[i]);
        RedisModule_FreeString(NULL, keys[i].name);
    }
}

static void count_lag(uint64_t lag_ms) {
    const int class = lag_ms <= 1 ? 0 : 64 - __builtin_clzll(lag_ms - 1);
    ++me.lag[class < lag_classes - 1 ? class : lag_classes - 1];
}

/* Opens a key that is due. Afterwards the table has another deadline for it, or none. */
static void expire(ctx_t* ctx, int db, string_t* name, uint64_t expected) {
    const uint64_t now = wall_ms();
    bool is_there;
    RedisModule_SelectDb(ctx, db);
    const mstime_t deadline = open_key(ctx, name, &is_there);
    if (is_there && deadline != REDISMODULE_NO_EXPIRE) {
        set(db, name, hash_of(name), (uint64_t)deadline < now ? now : (uint64_t)deadline);
        ++me.vain;
        return;
    }
    drop(db, name, hash_of(name));
    if (is_there) {
        ++me.vain;
        return;
    }
    ++me.expired;
    count_lag(now - expected);
}

static ctx_t* firing_ctx;

static void on_due(struct tvec_wheel* wheel, struct tvec_timer* timer) {
    (void)wheel;
    struct bucket* bucket = TVEC_OWNER_OF(timer, struct bucket, timer);
    struct deadlines* table = bucket->table;
    const uint64_t now =
        tvec_now(me.calendar.wheel) + tvec_behind(me.calendar.wheel) - me.calendar.shift;
    const char* bytes;
    size_t length, opened = 0;
    uint64_t deadline;
    me.calendar.firing = true;
    while (!table->discarded && deadlines_overdue(bucket, now, &bytes, &length, &deadline)) {
        string_t* name = RedisModule_CreateString(NULL, bytes, length);
        expire(firing_ctx, table->db, name, deadline);
        RedisModule_FreeString(NULL, name);
        ++opened;
    }
    me.calendar.firing = false;
    if (table->discarded) return;
    deadlines_arm(bucket);
    deadlines_shrink(table, opened);
}

/* --- a turn ---------------------------------------------------------------------------------- */

static void stop_scan(void) {
    if (me.scan) RedisModule_ScanCursorDestroy(me.scan);
    me.scan = NULL;
}

/* Reads the deadlines of all keys there are, by turns. */
static void start_scan(void) {
    stop_scan();
    me.scan = RedisModule_ScanCursorCreate();
    me.scan_db = 0;
    ring_after(look_after_us);
}

static void on_scanned(ctx_t* ctx, string_t* name, RedisModuleKey* key, void* unused) {
    (void)ctx, (void)unused;
    const mstime_t deadline = RedisModule_GetAbsExpire(key);
    if (deadline == REDISMODULE_NO_EXPIRE) return;
    set(me.scan_db, name, hash_of(name), (uint64_t)deadline);
}

static void scan_some(ctx_t* ctx) {
    RedisModule_SelectDb(ctx, me.scan_db);
    if (RedisModule_Scan(ctx, me.scan, on_scanned, NULL)) return;
    RedisModule_ScanCursorRestart(me.scan);
    if (++me.scan_db == me.databases) stop_scan();
}

static void free_some(void) {
    struct deadlines* next = me.discarded->next;
    if (deadlines_free_some(me.discarded, 16)) me.discarded = next;
}

/* Opens keys that are due, until `end_us`. Returns whether none is left. */
static bool expire_some(ctx_t* ctx, int64_t end_us) {
    struct calendar* calendar = &me.calendar;
    firing_ctx = ctx;
    for (;;) {
        const uint64_t wall = wall_ms(),
                       now = tvec_now(calendar->wheel) + tvec_behind(calendar->wheel);
        if (wall + calendar->shift < now) calendar->shift = now - wall; /* it was set back */
        if (tvec_advance(calendar->wheel, wall + calendar->shift, 2).caught_up) return true;
        if (microseconds(CLOCK_MONOTONIC) >= end_us) return false;
    }
}

/* Expiry may have half of the time, be it in turns or by the sampler of Redis, and a turn no more
 * than the operator allows. After a rest a turn may use all of that. In a storm in which most keys
 * are expired, the sampler finds them itself, and a turn adds little to its work. */
static int64_t end_of_turn(int64_t start_us) {
    const int64_t sampled_us = (int64_t)me.by_sampler * me.key_ns / 1000;
    int64_t budget_us = start_us - me.turn_end_us - 2 * sampled_us;
    if (budget_us < least_turn_us) budget_us = least_turn_us;
    if (budget_us > me.max_turn_us) budget_us = me.max_turn_us;
    me.by_sampler /= 2; /* it goes on: its next cycle comes right after a turn */
    return start_us + budget_us;
}

/* Returns after which time to take the next turn for what is left over, or 0 if nothing is. */
static int64_t work(ctx_t* ctx, int64_t end_us) {
    do read_pending(ctx);
    while (me.pending_count && microseconds(CLOCK_MONOTONIC) < end_us);
    bool is_done = true, is_paused = false;
    if (is_on()) {
        is_paused = RedisModule_AvoidReplicaTraffic();
        is_done = is_paused || expire_some(ctx, end_us);
    }
    do { /* at least a little */
        if (me.scan) scan_some(ctx);
        if (me.discarded) free_some();
    } while ((me.scan || me.discarded) && microseconds(CLOCK_MONOTONIC) < end_us);
    if (!is_done || me.scan || me.discarded) return look_after_us;
    return is_paused ? paused_us : 0;
}

static void end_turn(int64_t start_us, unsigned long long expired) {
    me.turn_end_us = microseconds(CLOCK_MONOTONIC);
    const int64_t took_us = me.turn_end_us - start_us;
    if (expired >= 32) me.key_ns = took_us * 1000 / (int64_t)expired;
    if (took_us > me.longest_turn_us) me.longest_turn_us = took_us;
    ++me.turns;
}

static void take_turn(ctx_t* ctx, void* unused) {
    (void)unused;
    me.turn_asked = false;
    const unsigned long long expired = me.expired;
    const int64_t start_us = microseconds(CLOCK_MONOTONIC);
    const int64_t left_us = work(ctx, end_of_turn(start_us));
    end_turn(start_us, me.expired - expired);
    if (left_us || me.pending_count) {
        ring_after(left_us ? left_us : look_after_us);
    } else if (is_on()) {
        const uint64_t next = tvec_next_wakeup(me.calendar.wheel);
        if (next < TVEC_NEVER) ring_at((int64_t)(next - me.calendar.shift) * 1000);
    }
}

/* --- what Redis tells ------------------------------------------------------------------------ */

static bool loses_deadline(int type, const char* event) {
    static const char* const events[] = {"del", "persist", "rename_from", "move_from"};
    if (type & (REDISMODULE_NOTIFY_EXPIRED | REDISMODULE_NOTIFY_EVICTED)) return true;
    if (event[0] == 'e') return false; /* `expire`, the most frequent */
    for (size_t i = 0; i < sizeof events / sizeof *events; ++i)
        if (!strcmp(event, events[i])) return true;
    return false;
}

static int on_event(ctx_t* ctx, int type, const char* event, string_t* name) {
    if (!is_on()) return REDISMODULE_OK;
    if (type & REDISMODULE_NOTIFY_EXPIRED) {
        if (me.calendar.firing) return REDISMODULE_OK; /* by a turn, which knows */
        ++me.by_sampler;
    }
    const int db = RedisModule_GetSelectedDb(ctx);
    const bool has_lost = loses_deadline(type, event);
    if (has_lost && !me.tables[db] && me.pending_count == 0) return REDISMODULE_OK;
    if (me.pending_count == pending_size && !me.is_cluster) read_pending(ctx);
    if (me.pending_count == me.pending_room) resize_pending(2 * me.pending_room);
    if (me.pending_count == 0) ring_after(look_after_us);
    *pending_at(me.pending_count++) =
        (struct pending){RedisModule_HoldString(NULL, name), db, has_lost};
    return REDISMODULE_OK;
}

static void on_flush(ctx_t* ctx, RedisModuleEvent event, uint64_t subevent, void* data) {
    (void)ctx, (void)event;
    if (subevent != REDISMODULE_SUBEVENT_FLUSHDB_START) return;
    const int db = ((const RedisModuleFlushInfo*)data)->dbnum;
    if (db == -1)
        discard_all();
    else
        discard(db);
}

static void on_swap(ctx_t* ctx, RedisModuleEvent event, uint64_t subevent, void* data) {
    (void)ctx, (void)event, (void)subevent;
    const RedisModuleSwapDbInfo* swapped = data;
    const int a = swapped->dbnum_first, b = swapped->dbnum_second;
    struct deadlines* table = me.tables[a];
    me.tables[a] = me.tables[b];
    me.tables[b] = table;
    if (me.tables[a]) me.tables[a]->db = a;
    if (me.tables[b]) me.tables[b]->db = b;
    for (size_t i = 0; i < me.pending_count; ++i) {
        int* db = &pending_at(i)->db;
        *db = *db == a ? b : *db == b ? a : *db;
    }
    if (me.scan) start_scan();
}

static void forget_pending(void) {
    for (size_t i = 0; i < me.pending_count; ++i) RedisModule_FreeString(NULL, pending_at(i)->name);
    me.pending_count = 0;
}

/* Begins anew: with all keys there are, or with none. */
static void switch_on_or_off(void) {
    stop_scan();
    forget_pending();
    discard_all();
    if (is_on()) start_scan();
}

static void on_role(ctx_t* ctx, RedisModuleEvent event, uint64_t subevent, void* data) {
    (void)ctx, (void)event, (void)data;
    me.is_replica = subevent == REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA;
    switch_on_or_off();
}

static void on_loading(ctx_t* ctx, RedisModuleEvent event, uint64_t subevent, void* data) {
    (void)ctx, (void)event, (void)data;
    me.is_loading = subevent != REDISMODULE_SUBEVENT_LOADING_ENDED &&
                    subevent != REDISMODULE_SUBEVENT_LOADING_FAILED;
    switch_on_or_off();
}

/* --- what operators see ---------------------------------------------------------------------- */

static void show_lag(RedisModuleInfoCtx* ctx) {
    RedisModule_InfoBeginDictField(ctx, "lag_ms");
    for (int class = 0; class < lag_classes - 1; ++class) {
        char name[] = "le_65536";
        int value = 1 << class, digits = 1;
        for (int v = value; v >= 10; v /= 10) ++digits;
        name[3 + digits] = '\0';
        for (; digits > 0; --digits, value /= 10) name[2 + digits] = (char)('0' + value % 10);
        RedisModule_InfoAddFieldULongLong(ctx, name, me.lag[class]);
    }
    RedisModule_InfoAddFieldULongLong(ctx, "more", me.lag[lag_classes - 1]);
    RedisModule_InfoEndDictField(ctx);
}

static size_t count_keys(void) {
    size_t keys = 0;
    for (int db = 0; db < me.databases; ++db)
        if (me.tables[db]) keys += me.tables[db]->keys;
    return keys;
}

static void on_info(RedisModuleInfoCtx* ctx, int for_crash_report) {
    (void)for_crash_report;
    RedisModule_InfoAddSection(ctx, "");
    RedisModule_InfoAddFieldCString(ctx, "state",
                                    me.is_replica   ? "replica"
                                    : !me.is_active ? "off"
                                    : me.is_loading ? "loading"
                                    : me.scan       ? "scanning"
                                                    : "on");
    RedisModule_InfoAddFieldULongLong(ctx, "keys", count_keys() + me.pending_count);
    RedisModule_InfoAddFieldULongLong(ctx, "bytes", me.calendar.bytes);
    RedisModule_InfoAddFieldULongLong(ctx, "expired", me.expired);
    RedisModule_InfoAddFieldULongLong(ctx, "vain", me.vain);
    RedisModule_InfoAddFieldULongLong(ctx, "turns", me.turns);
    RedisModule_InfoAddFieldLongLong(ctx, "longest_turn_us", me.longest_turn_us);
    show_lag(ctx);
}

/* Returns how many keys of the server have a deadline. */
static size_t count_volatile(ctx_t* ctx) {
    RedisModuleServerInfoData* info = RedisModule_GetServerInfo(ctx, "keyspace");
    size_t keys = 0;
    for (int db = 0; db < me.databases; ++db) {
        char name[16];
        snprintf(name, sizeof name, "db%d", db);
        const char* line = RedisModule_ServerInfoGetFieldC(info, name);
        const char* expires = line ? strstr(line, "expires=") : NULL;
        if (expires) keys += strtoull(expires + strlen("expires="), NULL, 10);
    }
    RedisModule_FreeServerInfo(ctx, info);
    return keys;
}

/* TVEC_EXPIRE.CHECK: the number of keys held, or an error that says which invariant is broken. A
 * transaction or script in a cluster has a slot, and no key of another one can be opened in it. */
static int check_command(ctx_t* ctx, string_t** argv, int argc) {
    (void)argv;
    if (argc != 1) return RedisModule_WrongArity(ctx);
    const int inside = REDISMODULE_CTX_FLAGS_MULTI | REDISMODULE_CTX_FLAGS_LUA;
    if (me.is_cluster && (RedisModule_GetContextFlags(ctx) & inside))
        return RedisModule_ReplyWithError(ctx, "ERR in a cluster: not in a transaction or script");
    const int db_of_caller = RedisModule_GetSelectedDb(ctx);
    while (me.pending_count) read_pending(ctx);
    RedisModule_SelectDb(ctx, db_of_caller); /* it would stay selected for later commands */
    char fault[256];
    if (tvec_check(me.calendar.wheel, fault, sizeof fault))
        return RedisModule_ReplyWithError(ctx, fault);
    for (int db = 0; db < me.databases; ++db) {
        const char* broken = me.tables[db] ? deadlines_fault(me.tables[db]) : NULL;
        if (broken) return RedisModule_ReplyWithError(ctx, broken);
    }
    const size_t held = count_keys(), all = is_on() && !me.scan ? count_volatile(ctx) : 0;
    if (held < all) {
        snprintf(fault, sizeof fault, "ERR %zu keys held, but %zu have a deadline", held, all);
        return RedisModule_ReplyWithError(ctx, fault);
    }
    return RedisModule_ReplyWithLongLong(ctx, (long long)held);
}

static long long get_max_turn(const char* name, void* unused) {
    (void)name, (void)unused;
    return me.max_turn_us;
}

static int set_max_turn(const char* name, long long value, void* unused, string_t** error) {
    (void)name, (void)unused, (void)error;
    me.max_turn_us = value;
    return REDISMODULE_OK;
}

static int get_active(const char* name, void* unused) {
    (void)name, (void)unused;
    return me.is_active;
}

static int set_active(const char* name, int value, void* unused, string_t** error) {
    (void)name, (void)unused, (void)error;
    if (me.is_active == value) return REDISMODULE_OK;
    me.is_active = value;
    if (me.ctx) switch_on_or_off();
    return REDISMODULE_OK;
}

/* --- loading --------------------------------------------------------------------------------- */

#define EXPORTED __attribute__((visibility("default")))

/* Before the server serves clients, a module that fails ends it. */
static bool is_starting(ctx_t* ctx) {
    if (!RedisModule_GetServerInfo) return true; /* Redis 5 has no such call */
    RedisModuleServerInfoData* info = RedisModule_GetServerInfo(ctx, "clients");
    int error = REDISMODULE_OK;
    const unsigned long long clients =
        RedisModule_ServerInfoGetFieldUnsigned(info, "connected_clients", &error);
    RedisModule_FreeServerInfo(ctx, info);
    return error == REDISMODULE_OK && clients == 0;
}

static int load_configs(ctx_t* ctx) {
    RedisModule_RegisterNumericConfig(ctx, "max-turn-us", 1500, REDISMODULE_CONFIG_DEFAULT, 100,
                                      1000000, get_max_turn, set_max_turn, NULL, NULL);
    RedisModule_RegisterBoolConfig(ctx, "active", 1, REDISMODULE_CONFIG_DEFAULT, get_active,
                                   set_active, NULL, NULL);
    if (RedisModule_LoadConfigs(ctx) == REDISMODULE_OK) return REDISMODULE_OK;
    if (!is_starting(ctx)) return REDISMODULE_ERR;
    RedisModule_Log(ctx, "warning", "a configuration cannot be used: all have their defaults");
    return RedisModule_LoadConfigs(ctx);
}

static int refuse(ctx_t* ctx, const char* why) {
    RedisModule_Log(ctx, "warning", "%s", why);
    return is_starting(ctx) ? REDISMODULE_OK : REDISMODULE_ERR;
}

static int start_alarm(void) {
    me.alarm_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (me.alarm_fd < 0) return REDISMODULE_ERR;
    return RedisModule_EventLoopAdd(me.alarm_fd, REDISMODULE_EVENTLOOP_READABLE, on_alarm, NULL);
}

/* Puts a command into the categories of Redis' own commands for operators. The call came with Redis
 * 7.2: an older redismodule.h does not declare it, and an older server does not have it. */
static void leave_to_operators(ctx_t* ctx, const char* command) {
    int (*set_categories)(RedisModuleCommand*, const char*) = NULL;
    RedisModule_GetApi("RedisModule_SetCommandACLCategories", &set_categories);
    if (set_categories)
        set_categories(RedisModule_GetCommand(ctx, command), "admin dangerous slow");
}

static void listen_to(ctx_t* ctx) {
    RedisModule_SubscribeToKeyspaceEvents(
        ctx, REDISMODULE_NOTIFY_GENERIC | REDISMODULE_NOTIFY_EXPIRED | REDISMODULE_NOTIFY_EVICTED,
        on_event);
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_FlushDB, on_flush);
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_SwapDB, on_swap);
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_ReplicationRoleChanged, on_role);
    RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_Loading, on_loading);
    RedisModule_RegisterInfoFunc(ctx, on_info);
    RedisModule_CreateCommand(ctx, "tvec_expire.check", check_command, "readonly admin", 0, 0, 0);
    leave_to_operators(ctx, "tvec_expire.check");
}

static void stop(void) {
    if (me.alarm_fd >= 0) {
        RedisModule_EventLoopDel(me.alarm_fd, REDISMODULE_EVENTLOOP_READABLE);
        close(me.alarm_fd);
    }
    tvec_wheel_free(me.calendar.wheel);
    RedisModule_Free(me.tables);
    RedisModule_Free(me.pending);
}

static int start(ctx_t* ctx) {
    me.calendar = (struct calendar){.wheel = tvec_wheel_new(wall_ms()), .fire = on_due};
    if (!me.calendar.wheel || start_alarm() != REDISMODULE_OK) return REDISMODULE_ERR;
    while (RedisModule_SelectDb(ctx, me.databases) == REDISMODULE_OK) ++me.databases;
    me.tables = RedisModule_Calloc((size_t)me.databases, sizeof *me.tables);
    resize_pending(pending_size);
    me.is_cluster = (RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_CLUSTER) != 0;
    me.ctx = RedisModule_GetDetachedThreadSafeContext(ctx);
    return REDISMODULE_OK;
}

EXPORTED int RedisModule_OnLoad(ctx_t* ctx, string_t** argv, int argc) {
    (void)argv;
    me = (struct state){.alarm_fd = -1, .alarm_us = INT64_MAX, .key_ns = 2000};
    if (RedisModule_Init(ctx, "tvec_expire", 1, REDISMODULE_APIVER_1) == REDISMODULE_ERR)
        return REDISMODULE_ERR;
    if (!RedisModule_EventLoopAdd || !RedisModule_RegisterNumericConfig)
        return refuse(ctx, "this server is older than Redis 7.0: keys expire as they did before");
    if (argc > 0) {
        const char* why = "it takes no arguments: set tvec_expire.max-turn-us in the configuration";
        if (refuse(ctx, why) == REDISMODULE_ERR) return REDISMODULE_ERR;
    }
    if (load_configs(ctx) == REDISMODULE_ERR) return REDISMODULE_ERR;
    if (start(ctx) == REDISMODULE_ERR) {
        stop();
        return refuse(ctx, "no memory or descriptor for an alarm: keys expire as they did before");
    }
    /* Otherwise closing a key would break WATCH and the caches of clients that track it. */
    RedisModule_SetModuleOptions(ctx, REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD |
                                          REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED);
    listen_to(ctx);
    me.is_replica = (RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_SLAVE) != 0;
    switch_on_or_off();
    return REDISMODULE_OK;
}

EXPORTED int RedisModule_OnUnload(ctx_t* ctx) {
    if (!me.ctx) return REDISMODULE_OK; /* it was refused */
    if (me.turn_asked) RedisModule_StopTimer(ctx, me.turn_timer, NULL);
    stop_scan();
    forget_pending();
    discard_all();
    while (me.discarded) free_some();
    RedisModule_FreeThreadSafeContext(me.ctx);
    stop();
    return REDISMODULE_OK;
}
