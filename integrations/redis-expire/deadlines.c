#include "deadlines.h"

#include <string.h>
#include <sys/random.h>

#include "redismodule.h"

/* A record: a word of the deadline (48 bits) and a mark of the hash (16), a byte for the length of
 * the name, and the name. Names that are longer than a byte can say lie elsewhere, and the record
 * has the address of them. */
enum { mark_bits = 16, head_size = 9, elsewhere = 255 };

struct block {
    uint32_t used, room; /* of the records, in bytes */
    unsigned char records[];
};

struct long_name {
    size_t length;
    char name[];
};

enum { segment_size = 64, keys_per_bucket = 8, keys_left_per_bucket = 6 };

/* --- hash: a product of 128 bits, folded, for each eight bytes ------------------------------- */

static uint64_t fold(uint64_t a, uint64_t b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static const uint64_t* secrets(void) {
    static uint64_t drawn[3];
    if (drawn[0] == 0 && getrandom(drawn, sizeof drawn, 0) != sizeof drawn) drawn[1] = 0x2545F491;
    drawn[0] |= 1;
    return drawn;
}

uint64_t deadlines_hash(const char* name, size_t length) {
    const uint64_t* secret = secrets();
    uint64_t hash = secret[1] ^ length, word;
    for (; length >= sizeof word; name += sizeof word, length -= sizeof word) {
        memcpy(&word, name, sizeof word);
        hash = fold(hash ^ word, secret[0]);
    }
    word = 0;
    memcpy(&word, name, length);
    return fold(fold(hash ^ word, secret[0]) ^ secret[2], secret[0]);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void* allocate(struct calendar* calendar, size_t size) {
    calendar->bytes += size;
    return RedisModule_Alloc(size);
}

static void release(struct calendar* calendar, void* memory, size_t size) {
    calendar->bytes -= size;
    RedisModule_Free(memory);
}

/* Two sizes for each doubling, from 256 bytes on: an eighth is unused on average, and one of
 * several keys moves the block. All are size classes of jemalloc. */
static size_t rounded(size_t size) {
    const size_t half = size <= 256 ? 64 : (size_t)1 << (62 - __builtin_clzl(size - 1));
    return (size + half - 1) / half * half;
}

/* --- records --------------------------------------------------------------------------------- */

static uint64_t word_at(const unsigned char* record) {
    uint64_t word;
    memcpy(&word, record, sizeof word);
    return word;
}

static uint64_t deadline_at(const unsigned char* record) { return word_at(record) >> mark_bits; }

static uint16_t mark_of(uint64_t hash) { return (uint16_t)(hash >> (64 - mark_bits)); }

static void write_word(unsigned char* record, uint64_t deadline, uint16_t mark) {
    const uint64_t word = deadline << mark_bits | mark;
    memcpy(record, &word, sizeof word);
}

static size_t size_of_name(size_t length) { return length < elsewhere ? length : sizeof(void*); }

static size_t size_at(const unsigned char* record) { return head_size + size_of_name(record[8]); }

static struct long_name* long_name_at(const unsigned char* record) {
    struct long_name* name;
    memcpy(&name, record + head_size, sizeof name);
    return name;
}

static const char* name_at(const unsigned char* record, size_t* length) {
    if (record[8] == elsewhere) {
        const struct long_name* name = long_name_at(record);
        *length = name->length;
        return name->name;
    }
    *length = record[8];
    return (const char*)record + head_size;
}

static uint64_t hash_at(const unsigned char* record) {
    size_t length;
    const char* name = name_at(record, &length);
    return deadlines_hash(name, length);
}

static unsigned char* begin(const struct bucket* bucket) {
    return bucket->block ? bucket->block->records : NULL;
}

static unsigned char* end(const struct bucket* bucket) {
    return bucket->block ? bucket->block->records + bucket->block->used : NULL;
}

#define FOR_EACH_RECORD(record, bucket)                                                            \
    for (unsigned char *record = begin(bucket), *end_ = end(bucket); record != end_;               \
         record += size_at(record))

static unsigned char* find(const struct bucket* bucket, const char* name, size_t length,
                           uint16_t mark) {
    FOR_EACH_RECORD(record, bucket) {
        if ((uint16_t)word_at(record) != mark) continue;
        size_t other_length;
        const char* other = name_at(record, &other_length);
        if (other_length == length && memcmp(other, name, length) == 0) return record;
    }
    return NULL;
}

static size_t size_of_block(const struct bucket* bucket) {
    return bucket->block ? sizeof *bucket->block + bucket->block->room : 0;
}

/* Gives the bucket room for `used` bytes of records, and not much more. */
static void fit(struct bucket* bucket, size_t used) {
    struct calendar* calendar = bucket->table->calendar;
    const size_t old = size_of_block(bucket), least = sizeof *bucket->block + used;
    if (used == 0) {
        release(calendar, bucket->block, old);
        bucket->block = NULL;
        return;
    }
    if (least <= old && 2 * least + 64 > old) return;
    const size_t size = rounded(least);
    struct block* block = RedisModule_Realloc(bucket->block, size);
    calendar->bytes += size - old;
    if (!bucket->block) block->used = 0;
    block->room = (uint32_t)(size - sizeof *block);
    bucket->block = block;
}

static unsigned char* append(struct bucket* bucket, size_t size) {
    fit(bucket, (bucket->block ? bucket->block->used : 0) + size);
    unsigned char* record = end(bucket);
    bucket->block->used += (uint32_t)size;
    return record;
}

static void write_name(struct calendar* calendar, unsigned char* record, const char* name,
                       size_t length) {
    record[8] = (unsigned char)(length < elsewhere ? length : elsewhere);
    if (length < elsewhere) {
        memcpy(record + head_size, name, length);
        return;
    }
    struct long_name* copy = allocate(calendar, sizeof *copy + length);
    copy->length = length;
    memcpy(copy->name, name, length);
    memcpy(record + head_size, &copy, sizeof(void*));
}

static void arm(struct bucket* bucket, uint64_t deadline) {
    const struct calendar* calendar = bucket->table->calendar;
    const uint64_t tick = deadline + 1 + calendar->shift; /* Redis: expired when now > deadline */
    if (!tvec_pending(&bucket->timer) || tick < tvec_expires(&bucket->timer))
        tvec_arm_at(calendar->wheel, &bucket->timer, tick);
}

void deadlines_arm(struct bucket* bucket) {
    uint64_t first = UINT64_MAX;
    FOR_EACH_RECORD(record, bucket) {
        const uint64_t deadline = deadline_at(record);
        if (deadline < first) first = deadline;
    }
    if (first != UINT64_MAX) arm(bucket, first);
}

/* --- buckets --------------------------------------------------------------------------------- */

static struct bucket* bucket_at(const struct deadlines* table, size_t index) {
    return &table->segments[index / segment_size][index % segment_size];
}

/* The largest power of two that is not above `n`, which is not 0. */
static size_t floor_to_power(size_t n) { return (size_t)1 << (63 - __builtin_clzl(n)); }

static size_t index_of(size_t buckets, uint64_t hash) {
    const size_t half = floor_to_power(buckets);
    const size_t index = hash & (2 * half - 1);
    return index < buckets ? index : index & (half - 1);
}

static struct bucket* bucket_of(const struct deadlines* table, uint64_t hash) {
    return bucket_at(table, index_of(table->buckets, hash));
}

/* Room for segments: as many as there are, rounded up to a power of two. */
static size_t size_of_segments(size_t segments) {
    const size_t room = segments < 2 ? segments : 2 * floor_to_power(segments - 1);
    return room * sizeof(struct bucket*);
}

static void add_segment(struct deadlines* table, size_t segment) {
    const size_t old = size_of_segments(segment), size = size_of_segments(segment + 1);
    if (size != old) {
        table->segments = RedisModule_Realloc(table->segments, size);
        table->calendar->bytes += size - old;
    }
    table->segments[segment] = allocate(table->calendar, segment_size * sizeof(struct bucket));
}

static void remove_segment(struct deadlines* table, size_t segment) {
    const size_t old = size_of_segments(segment + 1), size = size_of_segments(segment);
    release(table->calendar, table->segments[segment], segment_size * sizeof(struct bucket));
    if (size != old) {
        table->segments = RedisModule_Realloc(table->segments, size);
        table->calendar->bytes += size - old;
    }
}

static struct bucket* make_bucket(struct deadlines* table) {
    const size_t index = table->buckets++;
    if (index % segment_size == 0) add_segment(table, index / segment_size);
    struct bucket* bucket = bucket_at(table, index);
    tvec_timer_init(&bucket->timer, table->calendar->fire);
    bucket->table = table;
    bucket->block = NULL;
    return bucket;
}

/* Splits the bucket whose keys a new last one shares. */
static void split(struct deadlines* table) {
    const size_t index = table->buckets;
    struct bucket* to = make_bucket(table);
    struct bucket* from = bucket_at(table, index - floor_to_power(index));
    size_t kept = 0;
    for (size_t at = 0, size; from->block && at < from->block->used; at += size) {
        unsigned char* record = from->block->records + at;
        size = size_at(record);
        if (index_of(table->buckets, hash_at(record)) == index) {
            memcpy(append(to, size), record, size);
        } else {
            memmove(from->block->records + kept, record, size);
            kept += size;
        }
    }
    if (from->block) {
        from->block->used = (uint32_t)kept;
        fit(from, kept);
    }
    deadlines_arm(to);
}

static void free_bucket(struct deadlines* table) {
    const size_t index = --table->buckets;
    struct bucket* last = bucket_at(table, index);
    tvec_unlink(&last->timer);
    fit(last, 0);
    if (index % segment_size == 0) remove_segment(table, index / segment_size);
}

/* Gives the keys of the last bucket back to that which they were split from. */
static void merge(struct deadlines* table) {
    const size_t index = table->buckets - 1;
    struct bucket* from = bucket_at(table, index);
    struct bucket* to = bucket_at(table, index - floor_to_power(index));
    if (from->block) {
        const size_t size = from->block->used;
        memcpy(append(to, size), from->block->records, size);
        deadlines_arm(to);
    }
    free_bucket(table);
}

void deadlines_shrink(struct deadlines* table, size_t buckets) {
    for (; buckets > 0 && table->buckets > 1; --buckets) {
        if (table->keys >= table->buckets * keys_left_per_bucket) break;
        merge(table);
    }
}

/* --- keys ------------------------------------------------------------------------------------ */

struct deadlines* deadlines_new(struct calendar* calendar, int db) {
    struct deadlines* table = allocate(calendar, sizeof *table);
    *table = (struct deadlines){.calendar = calendar, .db = db};
    make_bucket(table);
    return table;
}

static void free_long_name(struct calendar* calendar, const unsigned char* record) {
    if (record[8] != elsewhere) return;
    struct long_name* name = long_name_at(record);
    release(calendar, name, sizeof *name + name->length);
}

static void free_long_names(const struct bucket* bucket) {
    FOR_EACH_RECORD(record, bucket) free_long_name(bucket->table->calendar, record);
}

bool deadlines_free_some(struct deadlines* table, size_t buckets) {
    for (; buckets > 0 && table->buckets > 0; --buckets) {
        free_long_names(bucket_at(table, table->buckets - 1));
        free_bucket(table);
    }
    if (table->buckets > 0) return false;
    release(table->calendar, table, sizeof *table);
    return true;
}

void deadlines_set(struct deadlines* table, const char* name, size_t length, uint64_t hash,
                   uint64_t deadline) {
    if (deadline > DEADLINE_LAST) deadline = DEADLINE_LAST;
    struct bucket* bucket = bucket_of(table, hash);
    unsigned char* record = find(bucket, name, length, mark_of(hash));
    const bool is_new = !record;
    if (is_new) {
        record = append(bucket, head_size + size_of_name(length));
        write_name(table->calendar, record, name, length);
    }
    write_word(record, deadline, mark_of(hash));
    arm(bucket, deadline);
    if (is_new && ++table->keys > table->buckets * keys_per_bucket) split(table);
}

bool deadlines_drop(struct deadlines* table, const char* name, size_t length, uint64_t hash) {
    struct bucket* bucket = bucket_of(table, hash);
    unsigned char* record = find(bucket, name, length, mark_of(hash));
    if (!record) return false;
    free_long_name(table->calendar, record);
    const size_t size = size_at(record);
    memmove(record, record + size, (size_t)(end(bucket) - record) - size);
    bucket->block->used -= (uint32_t)size;
    fit(bucket, bucket->block->used);
    --table->keys;
    if (!table->calendar->firing) deadlines_shrink(table, 2);
    return true;
}

struct bucket* deadlines_prefetch(struct deadlines* table, uint64_t hash) {
    struct bucket* bucket = bucket_of(table, hash);
    __builtin_prefetch(&bucket->timer.back);
    __builtin_prefetch(&bucket->block);
    return bucket;
}

void deadlines_prefetch_keys(const struct bucket* bucket) {
    const char* block = (const char*)bucket->block;
    if (!block) return;
    for (int line = 0; line < 4; ++line) __builtin_prefetch(block + (ptrdiff_t)line * 64, 1);
}

bool deadlines_overdue(const struct bucket* bucket, uint64_t now, const char** name, size_t* length,
                       uint64_t* deadline) {
    FOR_EACH_RECORD(record, bucket) {
        *deadline = deadline_at(record);
        if (*deadline >= now) continue;
        *name = name_at(record, length);
        return true;
    }
    return false;
}

/* --- checking -------------------------------------------------------------------------------- */

static const char* fault_of(const struct deadlines* table, size_t index, size_t* keys) {
    const struct bucket* bucket = bucket_at(table, index);
    FOR_EACH_RECORD(record, bucket) {
        const uint64_t hash = hash_at(record);
        size_t length;
        const char* name = name_at(record, &length);
        if (index_of(table->buckets, hash) != index) return "a key is in another's bucket";
        if (find(bucket, name, length, mark_of(hash)) != record) return "a key is there twice";
        if (!tvec_pending(&bucket->timer)) return "a bucket has keys and no timer";
        if (tvec_expires(&bucket->timer) > deadline_at(record) + 1 + table->calendar->shift)
            return "a timer is later than a deadline";
        ++*keys;
    }
    return NULL;
}

const char* deadlines_fault(const struct deadlines* table) {
    size_t keys = 0;
    for (size_t index = 0; index < table->buckets; ++index) {
        const char* fault = fault_of(table, index, &keys);
        if (fault) return fault;
    }
    return keys == table->keys ? NULL : "the keys are not as many as counted";
}
