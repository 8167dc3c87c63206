/* The deadlines of the volatile keys of a database, found by name and by time.
 *
 * A hash table without timers of its own for each key: keys of one bucket share a timer, which is
 * armed for the earliest of their deadlines. A key costs its name, nine bytes, and an eighth of a
 * bucket of 48 bytes. A bucket is one block of memory, so a key has no pointers either.
 *
 * The table grows and shrinks by one bucket at a time (linear hashing): no call takes long. */
#ifndef TVEC_EXPIRE_DEADLINES_H
#define TVEC_EXPIRE_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tvec/tvec.h>

/* Deadlines are milliseconds of the wall clock. Later ones count as this one, in the year 10889. */
#define DEADLINE_LAST ((UINT64_C(1) << 48) - 1)

/* State that all tables share. The wheel counts milliseconds. Its ticks are `shift` ahead of the
 * wall clock, which may be set back where the wheel may not. */
struct calendar {
    struct tvec_wheel* wheel;
    tvec_callback fire;
    uint64_t shift;
    size_t bytes; /* of all tables */
    bool firing;  /* a bucket is looked through: none is removed meanwhile */
};

struct deadlines;

struct bucket {
    struct tvec_timer timer;
    struct deadlines* table;
    struct block* block; /* NULL: no keys */
};

struct deadlines {
    struct calendar* calendar;
    struct bucket** segments;
    size_t buckets, keys;
    int db;
    bool discarded;         /* its timers mean nothing any more */
    struct deadlines* next; /* among the discarded tables */
};

/* Hashes a name, with a seed of this process. */
uint64_t deadlines_hash(const char* name, size_t length);

/* Makes an empty table for a database. */
struct deadlines* deadlines_new(struct calendar* calendar, int db);

/* Frees up to `buckets` buckets, or all of the table. Returns whether the table is gone. */
bool deadlines_free_some(struct deadlines* table, size_t buckets);

/* Sets the deadline of a key, whether it had one or not. */
void deadlines_set(struct deadlines* table, const char* name, size_t length, uint64_t hash,
                   uint64_t deadline);

/* Forgets a key. Returns whether it was known. */
bool deadlines_drop(struct deadlines* table, const char* name, size_t length, uint64_t hash);

/* Removes up to `buckets` buckets that so few keys do not need. */
void deadlines_shrink(struct deadlines* table, size_t buckets);

/* Prefetch the bucket of a hash, and then its keys, for a later call that sets or drops a key. */
struct bucket* deadlines_prefetch(struct deadlines* table, uint64_t hash);
void deadlines_prefetch_keys(const struct bucket* bucket);

/* Finds a key of the bucket whose deadline is before `now`. The name is valid until the table is
 * changed. Returns whether there is one. */
bool deadlines_overdue(const struct bucket* bucket, uint64_t now, const char** name, size_t* length,
                       uint64_t* deadline);

/* Arms the timer of the bucket for its earliest deadline, unless it is armed for an earlier one. */
void deadlines_arm(struct bucket* bucket);

/* Checks every invariant of the table. Returns NULL, or the one that is broken. */
const char* deadlines_fault(const struct deadlines* table);

#endif
