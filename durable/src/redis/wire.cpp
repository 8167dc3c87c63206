#include "wire.hpp"

#include <iterator>
#include <string>
#include <utility>

#include "functions.hpp"
#include "opening.hpp"

namespace tvec::durable::redis {

command wire::begin(std::size_t shard, kind k, const head& first) const {
    constexpr std::string_view names[] = {"put", "end", "claim", "spend"};
    command c = function(shard, names[static_cast<std::size_t>(k)]).add(first);
    if (k == kind::claims)
        c.add(detail::last_time_of_claim(servers_.now(static_cast<unsigned>(shard)),
                                         servers_.options().silence));
    return c;
}

void wire::send(std::size_t shard, kind k, const batch& b) {
    ask(static_cast<unsigned>(shard), b.words, b.slots, k == kind::claims);
}

void wire::answer(const detail::request_ptr<fields&>& q) {
    servers_.refuse([q](fate, const redisReply*) { q->end(); });
}

// The keys are also those that it does not need: a cluster whose slots move treats all commands of
// a shard alike then.
command wire::function(std::size_t shard, std::string_view name) const {
    command c{"FCALL", std::string(functions_prefix).append(name),
              std::to_string(std::size(shard_keys))};
    for (const std::string_view k : shard_keys)
        c.add(servers_.key(static_cast<unsigned>(shard), k));
    return c;
}

void wire::ask(std::optional<unsigned> shard, const command& c, std::vector<slot> slots,
               bool has_time) {
    servers_.ask(shard, c,
                 [this, slots = std::move(slots), has_time](fate how, const redisReply* r) {
                     on_answer(slots, has_time, how, r);
                 });
}

// A nil reply means that another process owns the shard.
void wire::on_answer(const std::vector<slot>& slots, bool has_time, fate how, const redisReply* r) {
    const bool is_fenced = how == fate::replied && r->type == REDIS_REPLY_NIL;
    const bool is_read = how == fate::replied && !is_fenced && read(slots, has_time, *r);
    if (how == fate::replied && !is_fenced && !is_read) servers_.protest();
    for (const slot& s : slots) {
        if (is_fenced) s.whose->fence();
        if (!is_read) s.whose->miss(s.part, how);
        s.whose->end_part();
    }
}

// Returns true if the reply had the right form.
bool wire::read(const std::vector<slot>& slots, bool has_time, const redisReply& r) {
    fields f = fields::number_or_list(r);
    if (has_time) servers_.learn(f.microseconds());
    for (const slot& s : slots) s.whose->read(s.part, f);
    return f.is_whole() && f.at_end();
}

}  // namespace tvec::durable::redis
