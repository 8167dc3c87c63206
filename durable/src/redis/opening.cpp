#include "opening.hpp"

#include <cassert>
#include <utility>

#include "functions.hpp"

namespace tvec::durable::redis {

std::string key_of(const std::string& set, std::string_view what) {
    return '{' + set + "}:" + std::string(what);
}

std::string key_of(const std::string& set, unsigned shard, std::string_view what) {
    return key_of(set + ':' + std::to_string(shard), what);
}

opening::opening(std::string set, unsigned shards, listener l)
    : set_(std::move(set)), wanted_shards_(shards), listener_(std::move(l)) {}

void opening::begin() {
    const command c{"FCALL", std::string(functions_prefix) + "open", "1", key_of(set_, "meta"),
                    std::to_string(shards_ != 0 ? shards_ : wanted_shards_)};
    listener_.say({}, c, [this](const redisReply& r) { on_opened(r); });
}

void opening::on_opened(const redisReply& r) {
    fields f(r);
    listener_.learn(f.microseconds());
    const long long shards = f.number(), version = f.number();
    if (!f.is_whole() || shards < 1 || shards >= 10'000 || (shards_ != 0 && shards != shards_))
        return listener_.refused(std::errc::not_supported,
                                 "its timers are in " + std::to_string(shards) + " shards");
    shards_ = static_cast<unsigned>(shards);
    version < functions_version ? upgrade(0) : finish();
}

// Upgrades timers of an older version, some at a time. Several processes may do so at once.
void opening::upgrade(unsigned shard) {
    assert(shard <= shards_ && "the upgrade ends after the last shard");
    const std::string prefix(functions_prefix);
    if (shard == shards_)
        return listener_.say(
            {}, {"FCALL", prefix + "upgraded", "2", key_of(set_, "meta"), key_of(set_, "members")},
            [this](const redisReply&) { finish(); });
    is_upgrading_ = true;
    command c{"FCALL", prefix + "upgrade", "11"};
    for (const std::string_view name : shard_keys) c.add(key_of(set_, shard, name));
    for (const char* old : {"job", "try", "dead:job", "dead:try"}) c.add(key_of(set_, shard, old));
    listener_.say(shard, c.add(shards_), [this, shard](const redisReply& r) {
        const bool is_more = r.type == REDIS_REPLY_INTEGER && r.integer == 1;
        upgrade(is_more ? shard : shard + 1);
    });
}

void opening::finish() {
    assert(shards_ > 0 && "a set that is open has told its shards");
    is_upgrading_ = false;
    listener_.opened();
}

}  // namespace tvec::durable::redis
