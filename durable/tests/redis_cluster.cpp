// The store in a Redis Cluster: it follows slots that move, repeats what was not done, keeps the
// order of each shard, and does not trust what nodes say.
#include <hiredis/read.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "slot_map.hpp"
#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/certificates.hpp"
#include "support/check.hpp"
#include "support/environment.hpp"
#include "support/false_cluster.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"
#include "support/transitions.hpp"
#include "tvec/durable/redis_store.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::bulk, support::error, support::false_greeting, support::false_node, support::held,
    support::list, support::number, support::one_node, support::redis_server, support::refuses,
    support::words;

TestSuite(durable_redis_cluster, .timeout = 600);

namespace {

constexpr int last_slot = 16'383;
// The slot of {tvec:0}. That of {tvec:1} and that of {tvec} are others.
constexpr int slot_0 = 10'399;

// Nodes must be able to answer within these: valgrind is slow.
const duration soon{support::only_memory() ? 100 : 10};
const duration patience = 200 * soon;

redis_options at(int port) {
    redis_options o;
    o.port = static_cast<std::uint16_t>(port);
    o.shards = 2;
    o.silence = patience;
    o.replica_limit = 100ms;
    o.slowest = 20ms;
    o.look_again = 1h;
    return o;
}

// The commands of a shard that this node has got, by the ids of their first timers.
std::vector<std::string> ids_put(false_node& node) {
    std::vector<std::string> ids;
    for (const words& w : node.heard("tvec_durable_8_put")) ids.push_back(w[12]);
    return ids;
}

bool is_put(const words& w) { return w[0] == "FCALL" && w[1] == "tvec_durable_8_put"; }

std::string stored(const words& w) {
    return list(std::vector<std::string>((w.size() - 12) / 4, number(1)));
}

// Answers the greeting, and that each put was stored.
std::string usual(const false_greeting& g, const words& w) {
    if (is_put(w)) return stored(w);
    const std::string a = g(w);
    return a.empty() ? number(1) : a;
}

std::string moved_to(const false_node& n) {
    return error("MOVED " + std::to_string(slot_0) + ' ' + n.where());
}

// Returns an id of that shard.
std::string id_in(const store& s, unsigned shard, int n = 0) {
    for (int i = 0;; ++i) {
        const std::string id = std::to_string(n) + '-' + std::to_string(i);
        if (s.shard_of(id) == shard) return id;
    }
}

// Two nodes. The first holds all slots, by the maps of both.
struct two_nodes {
    two_nodes() {
        greeting.slots = list({held(0, last_slot, a.port())});
        usual_on(a);
        usual_on(b);
    }
    // Has a node answer as usual, by the greeting that there is now.
    void usual_on(false_node& n) const {
        n.answer([g = greeting](const words& w) { return usual(g, w); });
    }
    // Has a node answer puts in this way.
    template <class F> void puts(false_node& n, F f) {
        n.answer(
            [g = greeting, f](const words& w) mutable { return is_put(w) ? f(w) : usual(g, w); });
    }
    void has(const std::string& slots, const std::string& state = "ok") {
        greeting.slots = slots;
        greeting.state = state;
    }

    false_greeting greeting;
    false_node a, b;
};

}  // namespace

Test(durable_redis_cluster, a_command_follows_its_slot_when_it_moves) {
    two_nodes n;
    const false_greeting before = n.greeting;
    n.has(list({held(0, last_slot, n.b.port())}));
    n.usual_on(n.b);
    n.a.answer([&n, before, has_moved = false](const words& w) mutable {
        has_moved |= is_put(w);
        return is_put(w) ? moved_to(n.b) : usual(has_moved ? n.greeting : before, w);
    });
    redis_store s(at(n.a.port()));
    const std::string first = id_in(s, 0), second = id_in(s, 0, 1);
    CHECK(put(s, {first, today()}) == put_result::stored);
    CHECK(put(s, {second, today()}) == put_result::stored);
    // Until the right node is ready, the first one may be sent to and fro. The second one is not.
    CHECK(std::ranges::count(ids_put(n.a), first) > 0);
    CHECK_EQ(std::ranges::count(ids_put(n.a), second), 0);
    CHECK((ids_put(n.b) == std::vector{first, second}));
    CHECK_EQ(n.b.heard("ASKING").size(), 0U);
    CHECK_EQ(s.last_failure(), "");
}

Test(durable_redis_cluster, an_ask_redirects_one_command_only) {
    two_nodes n;
    n.puts(n.a, [&, i = 0](const words& w) mutable {
        return i++ == 0 ? error("ASK " + std::to_string(slot_0) + ' ' + n.b.where()) : stored(w);
    });
    redis_store s(at(n.a.port()));
    const std::string first = id_in(s, 0), second = id_in(s, 0, 1);
    CHECK(put(s, {first, today()}) == put_result::stored);
    CHECK(put(s, {second, today()}) == put_result::stored);
    CHECK((ids_put(n.a) == std::vector{first, second}));
    CHECK((ids_put(n.b) == std::vector{first}));
    CHECK_EQ(n.b.heard("ASKING").size(), 1U);
}

// The keys of the next command may still be at the first node.
Test(durable_redis_cluster, commands_follow_an_ask_one_at_a_time) {
    two_nodes n;
    n.puts(n.a, [&, i = 0](const words& w) mutable {
        return i++ < 3 ? error("ASK " + std::to_string(slot_0) + ' ' + n.b.where()) : stored(w);
    });
    redis_store s(at(n.a.port()));
    int answered = 0;
    for (const existing how : {existing::keep, existing::replace, existing::keep})
        s.submit(operations::put{{{id_in(s, 0), today()}}, how, [&](const auto&) { ++answered; }});
    turn_until(s, [&] { return answered == 3; });
    CHECK_EQ(n.b.heard("ASKING").size(), 1U);
    CHECK_EQ(ids_put(n.b).size(), 1U);
    CHECK_EQ(ids_put(n.a).size(), 5U);
}

Test(durable_redis_cluster, a_command_is_repeated_after_tryagain_or_clusterdown) {
    two_nodes n;
    n.puts(n.a, [&, i = 0](const words& w) mutable {
        ++i;
        return i == 1   ? error("TRYAGAIN Multiple keys request during rehashing of slot")
               : i == 2 ? error("CLUSTERDOWN The cluster is down")
                        : stored(w);
    });
    redis_store s(at(n.a.port()));
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::stored);
    CHECK_EQ(ids_put(n.a).size(), 3U);
    CHECK_EQ(s.last_failure(), "");
}

Test(durable_redis_cluster, a_redirected_command_needs_no_replica_there) {
    two_nodes n;
    for (false_node* node : {&n.a, &n.b})
        node->answer(
            [g = n.greeting](const words& w) { return w[0] == "WAIT" ? number(1) : usual(g, w); });
    redis_options o = at(n.a.port());
    o.wait_replicas = 1;
    redis_store s(o);
    n.a.answer([g = n.greeting, &n](const words& w) {
        return w[0] == "WAIT" ? number(0) : is_put(w) ? moved_to(n.b) : usual(g, w);
    });
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::stored);
}

Test(durable_redis_cluster, endless_retries_fail_while_other_shards_continue) {
    two_nodes n;
    n.puts(n.a, [&](const words& w) {
        return w[3] == "{tvec:0}:due" ? error("TRYAGAIN not yet") : stored(w);
    });
    redis_store s(at(n.a.port()));
    std::optional<put_result> slow;
    const auto note = [&](const auto& r) { slow = r[0]; };
    s.submit(operations::put{{{id_in(s, 0), today()}}, existing::keep, note});
    CHECK(put(s, {id_in(s, 1), today()}) == put_result::stored);
    CHECK(!slow.has_value());
    turn_until(s, [&] { return slow.has_value(); });
    CHECK(*slow == put_result::failed);
    CHECK(s.last_failure().find("slot 10399: TRYAGAIN not yet") != std::string::npos);
    CHECK(std::cmp_less(ids_put(n.a).size(), patience / 22ms));
}

Test(durable_redis_cluster, redirection_loops_are_given_up) {
    two_nodes n;
    n.puts(n.a, [&](const words&) { return moved_to(n.b); });
    n.puts(n.b, [&](const words&) { return moved_to(n.a); });
    redis_store s(at(n.a.port()));
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::failed);
    CHECK(s.last_failure().find("MOVED") != std::string::npos);
    CHECK(std::cmp_less(ids_put(n.a).size() + ids_put(n.b).size(), patience / 20ms));
}

Test(durable_redis_cluster, commands_of_a_moving_slot_stay_in_order) {
    two_nodes n;
    n.puts(n.a, [&, i = 0](const words& w) mutable { return ++i < 3 ? stored(w) : moved_to(n.b); });
    redis_store s(at(n.a.port()));
    std::vector<std::string> asked;
    std::size_t answered = 0;
    const auto ask = [&](int i, existing how) {
        asked.push_back(id_in(s, 0, i));
        const auto note = [&, i](const auto& r) {
            CHECK(r[0] == put_result::stored);
            CHECK_EQ(answered++, static_cast<std::size_t>(i));
        };
        s.submit(operations::put{{{asked.back(), today()}}, how, note});
    };
    // Puts of both kinds are not in one command.
    for (int i = 0; i < 40; ++i) {
        ask(i, i % 2 == 0 ? existing::keep : existing::replace);
        if (i % 8 == 0) turn(s, 1ms);
    }
    turn_until(s, [&] { return answered == 40; });
    std::vector<std::string> done = ids_put(n.a);
    done.resize(2);
    std::ranges::copy(ids_put(n.b), std::back_inserter(done));
    CHECK(done == asked);
}

Test(durable_redis_cluster, returned_commands_are_never_done_out_of_order) {
    two_nodes n;
    n.puts(n.a,
           [&, i = 0](const words& w) mutable { return ++i == 1 ? moved_to(n.b) : stored(w); });
    redis_store s(at(n.a.port()));
    std::vector<std::pair<char, put_result>> results;
    const auto ask = [&](char name, existing how) {
        const auto note = [&, name](const auto& r) { results.emplace_back(name, r[0]); };
        s.submit(operations::put{{{id_in(s, 0), today()}}, how, note});
    };
    ask('a', existing::keep);
    ask('b', existing::replace);
    turn_until(s, [&] { return results.size() == 2; });
    CHECK((results[0] == std::pair('a', put_result::failed)));
    CHECK((results[1] == std::pair('b', put_result::stored)));
    CHECK_EQ(n.b.heard("tvec_durable_8_put").size(), 0U);
}

Test(durable_redis_cluster, commands_sent_to_a_lost_node_are_unknown) {
    two_nodes n;
    n.puts(n.a, [&](const words&) {
        n.a.leave();
        return std::string();
    });
    redis_store s(at(n.a.port()));
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::unknown);
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::failed);
}

Test(durable_redis_cluster, an_unassigned_slot_fails_alone) {
    two_nodes n;
    n.has(list({held(0, slot_0 - 1, n.a.port()), held(slot_0 + 1, last_slot, n.a.port())}));
    n.usual_on(n.a);
    redis_store s(at(n.a.port()));
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::failed);
    CHECK(s.last_failure().find("slot 10399: no node holds it") != std::string::npos);
    CHECK(put(s, {id_in(s, 1), today()}) == put_result::stored);
    n.has(list({held(0, last_slot, n.a.port())}));
    n.usual_on(n.a);
    while (put(s, {id_in(s, 0), today()}) != put_result::stored) continue;
}

Test(durable_redis_cluster, an_unreachable_node_fails_alone) {
    two_nodes n;
    const int nobody = support::free_port();
    n.has(list({held(0, slot_0 - 1, n.a.port()), held(slot_0, slot_0, nobody),
                held(slot_0 + 1, last_slot, n.a.port())}));
    n.usual_on(n.a);
    redis_store s(at(n.a.port()));
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::failed);
    CHECK(s.last_failure().find(std::to_string(nobody)) != std::string::npos);
    CHECK(put(s, {id_in(s, 1), today()}) == put_result::stored);
}

Test(durable_redis_cluster, the_map_leads_to_the_new_primary) {
    two_nodes n;
    n.has(list({held(0, last_slot, n.b.port())}));
    n.usual_on(n.a);
    redis_store s(at(n.a.port()));
    int reconnected = 0;
    s.listen({{}, [&] { ++reconnected; }});
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::stored);
    CHECK_EQ(ids_put(n.b).size(), 1U);
    n.b.leave();
    n.has(list({held(0, last_slot, n.a.port())}));
    n.usual_on(n.a);
    while (put(s, {id_in(s, 0), today()}) != put_result::stored)
        CHECK(s.now() > std::chrono::system_clock::now() - 60s);  // also without any clock
    CHECK_EQ(reconnected, 1);  // the new primary may lack what the old one had
}

namespace {

// Has the guide of a store tell so many maps.
void learn_maps(store& s, two_nodes& n, std::size_t maps) {
    const auto told = [&] { return n.a.heard("SLOTS").size() + n.b.heard("SLOTS").size(); };
    for (const std::size_t before = told(); told() < before + maps;) turn(s, 10ms);
}

}  // namespace

Test(durable_redis_cluster, a_working_primary_outweighs_an_outdated_map) {
    two_nodes n;
    n.has(list({held(0, 1, n.b.port()), held(2, last_slot, n.a.port())}));
    n.puts(n.a, [&](const words&) { return moved_to(n.b); });
    redis_options o = at(n.a.port());
    o.look_again = soon;
    redis_store s(o);
    for (int i = 0; i < 5; ++i) {
        CHECK(put(s, {id_in(s, 0, i), today()}) == put_result::stored);
        learn_maps(s, n, 2);
    }
    // Until the right node is ready, the first one may be sent to and fro. The others are not.
    const std::vector<std::string> ids = ids_put(n.a);
    CHECK_EQ(std::ranges::count(ids, id_in(s, 0)), std::ssize(ids));
    CHECK_EQ(ids_put(n.b).size(), 5U);
}

Test(durable_redis_cluster, moving_a_slot_counts_as_no_reconnection) {
    two_nodes n;
    const std::string others = held(0, 1, n.b.port()) + held(2, slot_0 - 1, n.a.port()) +
                               held(slot_0 + 1, last_slot, n.a.port());
    n.has("*4\r\n" + others + held(slot_0, slot_0, n.b.port()));
    n.usual_on(n.a);
    n.puts(n.b, [&](const words&) { return moved_to(n.a); });
    redis_options o = at(n.a.port());
    o.look_again = soon;
    redis_store s(o);
    int reconnected = 0;
    s.listen({{}, [&] { ++reconnected; }});
    n.has("*4\r\n" + others + held(slot_0, slot_0, n.a.port()));
    n.usual_on(n.a);
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::stored);
    learn_maps(s, n, 4);  // the store has left its connection by then
    CHECK_EQ(reconnected, 0);
    CHECK_EQ(s.broken_connections().size(), 0U);
}

Test(durable_redis_cluster, the_map_of_an_isolated_node_is_ignored) {
    two_nodes n;
    redis_options o = at(n.a.port());
    o.look_again = soon;
    redis_store s(o);
    const std::size_t before = n.b.heard("SLOTS").size();
    n.has(list({held(0, last_slot, 1)}), "fail");
    n.usual_on(n.a);
    while (s.last_failure().find("the cluster is down") == std::string::npos) turn(s, 10ms);
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::stored);
    CHECK_EQ(n.b.heard("SLOTS").size(), before);
    refuses(at(n.a.port()), std::errc::resource_unavailable_try_again, "the cluster is down");
}

Test(durable_redis_cluster, another_node_replaces_a_lost_seed) {
    two_nodes n;
    n.has(list({held(0, 1, n.a.port()), held(2, last_slot, n.b.port())}));
    n.usual_on(n.a);
    n.usual_on(n.b);
    redis_store s(at(n.a.port()));
    CHECK(n.b.heard("SLOTS").empty());
    n.a.leave();
    turn_until(s, [&] { return !n.b.heard("SUBSCRIBE").empty(); });  // hints come from it as well
    CHECK(!n.b.heard("SLOTS").empty());
    CHECK(put(s, {id_in(s, 0), today()}) == put_result::stored);
}

Test(durable_redis_cluster, puts_waiting_for_a_slot_are_bounded) {
    two_nodes n;
    n.puts(n.a, [](const words&) { return error("TRYAGAIN not yet"); });
    redis_options o = at(n.a.port());
    o.silence = 20s;
    o.max_unsent_bytes = 2 * largest_body;  // enough for one of these puts
    redis_store s(o);
    int stored = 0, failed = 0;
    const auto note = [&](const auto& r) {
        stored += r[0] == put_result::stored;
        failed += r[0] == put_result::failed;
    };
    const auto put_large = [&](int i) {
        const record large{id_in(s, 0, i), today(), std::string(largest_body, 'x')};
        s.submit(operations::put{{large}, existing::keep, note});
        s.run();
    };
    for (int i = 0; i < 3; ++i) put_large(i);
    turn_until(s, [&] { return failed > 0; });
    CHECK(s.last_failure().find("bytes wait: the cluster is slower") != std::string::npos);
    n.usual_on(n.a);
    turn_until(s, [&] { return s.unanswered() == 0; });
    CHECK_EQ(stored, 1);
    CHECK_EQ(failed, 2);
    put_large(3);
    turn_until(s, [&] { return s.unanswered() == 0; });
    CHECK_EQ(stored, 2);
}

Test(durable_redis_cluster, cluster_time_is_its_earliest_primary_clock) {
    two_nodes n;
    n.has(list({held(0, slot_0, n.b.port()), held(slot_0 + 1, last_slot, n.a.port())}));
    n.usual_on(n.a);
    n.greeting.ahead = 3600s;
    n.usual_on(n.b);
    const redis_store ahead(at(n.a.port()));
    CHECK(ahead.now() <= std::chrono::system_clock::now());
    CHECK(ahead.now() > std::chrono::system_clock::now() - 60s);
    n.greeting.ahead = -3600s;
    n.usual_on(n.b);
    redis_options o = at(n.a.port());
    o.look_again = soon;
    redis_store behind(o);
    CHECK(behind.now() <= std::chrono::system_clock::now() - 3600s);
    n.greeting.ahead = 0s;
    n.usual_on(n.b);
    while (behind.now() < std::chrono::system_clock::now() - 60s) turn(behind, 10ms);
}

Test(durable_redis_cluster, functions_are_loaded_on_each_primary) {
    two_nodes n;
    n.has(list({held(0, slot_0, n.b.port()), held(slot_0 + 1, last_slot, n.a.port())}));
    n.greeting.version = error("ERR Function not found");
    n.usual_on(n.a);
    n.usual_on(n.b);
    const redis_store s(at(n.a.port()));
    CHECK_EQ(n.a.heard("LOAD").size(), 1U);
    CHECK_EQ(n.b.heard("LOAD").size(), 1U);
}

Test(durable_redis_cluster, an_unsafe_primary_is_refused) {
    two_nodes n;
    for (const int first : {0, slot_0 - 1}) {  // with and without the common keys
        n.has(list({held(0, first, n.a.port()), held(first + 1, slot_0, n.b.port()),
                    held(slot_0 + 1, last_slot, n.a.port())}));
        n.usual_on(n.a);
        n.b.answer([g = n.greeting](const words& w) {
            std::string a = usual(g, w);
            const auto found = a.find("aof_enabled:1");
            return found == a.npos ? a : a.replace(found, 13, "aof_enabled:0");
        });
        refuses(at(n.a.port()), std::errc::operation_not_permitted,
                n.b.where() + ": appendonly is no");
    }
}

Test(durable_redis_cluster, a_changed_shard_count_pauses_the_store) {
    two_nodes n;
    redis_options o = at(n.a.port());
    o.look_again = soon;
    redis_store s(o);
    n.greeting.shards = 9;
    n.usual_on(n.a);
    while (put(s, {id_in(s, 0), today()}) == put_result::stored) continue;
    CHECK(s.last_failure().find("9 shards") != std::string::npos);
    n.greeting.shards = 2;
    n.usual_on(n.a);
    while (put(s, {id_in(s, 0), today()}) != put_result::stored) continue;
}

Test(durable_redis_cluster, a_malformed_map_of_slots_is_refused) {
    two_nodes n;
    for (const std::string& slots :
         {number(1), std::string("$-1\r\n"), list({held(5, 4, 7000)}),
          list({held(0, 16'384, 7000)}), list({held(0, 1, 0)}), list({held(0, 1, 65'536)}),
          list({list({number(0), number(1)})}), list({held(0, 1, 7000), number(3)}),
          list({held(-1, 1, 7000)})}) {
        n.has(slots);
        n.usual_on(n.a);
        refuses(at(n.a.port()), std::errc::protocol_error, "map of slots");
    }
    n.has(list({}));
    n.usual_on(n.a);
    refuses(at(n.a.port()), std::errc::timed_out, "slot 2614: no node holds it");
}

namespace {

std::optional<redis::slot_map> map_in(const std::string& bytes) {
    const std::unique_ptr<redisReader, decltype(&redisReaderFree)> reader(redisReaderCreate(),
                                                                          redisReaderFree);
    redisReaderFeed(reader.get(), bytes.data(), bytes.size());
    void* r = nullptr;
    REQUIRE(redisReaderGetReply(reader.get(), &r) == REDIS_OK);
    const redis::reply_ptr whole(static_cast<redisReply*>(r));
    return redis::slot_map::parsed(*whole, "asked");
}

}  // namespace

Test(durable_redis_cluster, a_map_names_all_primaries_and_all_nodes) {
    CHECK_EQ(redis::slot_of("123456789"), 12'739U);
    CHECK_EQ(redis::slot_of("tvec:0"), 10'399U);
    const std::string replica = list({bulk("::1"), number(7001), bulk("id"), list({bulk("more")})});
    const auto map = map_in(list({
        list({number(0), number(99), list({bulk("10.0.0.1"), number(7000), bulk("id")}), replica}),
        list({number(100), number(100), list({std::string("$-1\r\n"), number(7002)}), replica}),
        held(200, last_slot, 7003, "?"),
    }));
    REQUIRE(map.has_value());
    CHECK_EQ(map->primary_of(99)->text(), "10.0.0.1:7000");
    CHECK_EQ(map->primary_of(100)->text(), "asked:7002");
    CHECK(map->primary_of(101) == nullptr);
    CHECK_EQ(map->primary_of(16'383)->text(), "asked:7003");
    CHECK_EQ(map->nodes().size(), 4U);
    CHECK(map->is_primary({"asked", 7003}));
    CHECK(!map->is_primary({"::1", 7001}));
}

Test(durable_redis_cluster, redirections_are_told_from_other_errors) {
    using enum redis::redirection::kind;
    const auto to = [](const std::string& e) { return redis::redirection_of(e, "here").to.text(); };
    const auto what = [](const std::string& e) { return redis::redirection_of(e, "here").what; };
    CHECK(what("MOVED 1 10.0.0.1:7000") == moved);
    CHECK_EQ(to("MOVED 1 10.0.0.1:7000"), "10.0.0.1:7000");
    CHECK_EQ(to("MOVED 1 ::1:7000"), "::1:7000");
    CHECK_EQ(to("ASK 1 :7000"), "here:7000");
    CHECK(what("ASK 1 ?:7000") == ask);
    CHECK(what("TRYAGAIN") == later);
    CHECK(what("CLUSTERDOWN Hash slot not served") == later);
    for (const char* other : {"", "MOVED", "MOVED ", "MOVED 1", "MOVED 1 a:", "MOVED 1 a:0",
                              "MOVED a:1 2", "MOVED 1 a:65536", "MOVED 1 a:-1", "ASKING", "ERR no"})
        CHECK(what(other) == none);
}

Test(durable_redis_cluster, it_answers_as_the_store_in_memory_does) {
    const one_node c;
    redis_store s(at(c.server.port()));
    support::answers_as_the_store_in_memory(s, 2'000);
    redis_options o;
    o.socket = c.server.socket();
    CHECK_EQ(redis_store(o).traits().shards, 2U);
}

Test(durable_redis_cluster, every_event_changes_timers_as_in_memory) {
    const one_node c;
    redis_store s(at(c.server.port()));
    support::transitions::are_those_of_the_store_in_memory(s);
}

Test(durable_redis_cluster, timers_on_it_come_and_are_never_early) {
    const one_node c;
    redis_store s(at(c.server.port()));
    support::delivers_fifty(s);
}

Test(durable_redis_cluster, hints_come_from_any_node) {
    const one_node c;
    redis_store a(at(c.server.port())), b(at(c.server.port()));
    int hints = 0;
    a.listen({[&](unsigned, const std::string&, time_point) { ++hints; }, {}});
    take(a, 0, own(a, 0, 60s), {}, today() + 2h, 1);
    int i = 0;
    while (hints == 0) {
        put(b, {id_in(b, 0, i++), today() + 1h});
        find(a, "any");
    }
}

Test(durable_redis_cluster, older_timers_are_upgraded) {
    const one_node c;
    {
        redis_store s(at(c.server.port()));
        CHECK(put(s, {"a", today() + 1h, "body"}) == put_result::stored);
    }
    c.server.say({"HSET", "{tvec}:meta", "version", "2"});
    redis_store s(at(c.server.port()));
    CHECK_EQ(find(s, "a")->body, "body");
    CHECK_EQ(c.server.say({"HGET", "{tvec}:meta", "version"}), "8");
    c.server.say({"HSET", "{tvec}:meta", "version", "99"});
    refuses(at(c.server.port()), std::errc::not_supported, "version 99");
}

Test(durable_redis_cluster, a_user_needs_no_right_to_load_functions) {
    const one_node c;
    words user{"ACL",     "SETUSER",    "timers",   "on",
               ">secret", "~{tvec*",    "&tvec:*",  "+fcall",
               "+info",   "+subscribe", "+@write",  "-function",
               "+@read",  "+time",      "+publish", "+cluster|slots"};
    c.server.say(user);
    redis_options o = at(c.server.port());
    o.user = "timers";
    o.password = "secret";
    refuses(o, std::errc::permission_denied, "cluster|info");
    c.server.say({"ACL", "SETUSER", "timers", "+cluster|info", "+asking"});
    refuses(o, std::errc::permission_denied, "`tvec-timers install`");
    redis_store(at(c.server.port()));
    redis_store s(o);
    CHECK(put(s, {"a", today()}) == put_result::stored);
}

Test(durable_redis_cluster, tls_protects_the_links_to_all_nodes) {
    if (!support::is_there("openssl")) cr_skip("there is no openssl to make certificates");
    const support::temporary_folder f;
    REQUIRE(support::certify(f.name(), "server", "IP:127.0.0.1"));
    const int port = support::free_port();
    const one_node c({"--tls-port", std::to_string(port), "--tls-cert-file",
                      f.name() + "/server.crt", "--tls-key-file", f.name() + "/server.key",
                      "--tls-ca-cert-file", f.name() + "/server.crt", "--tls-auth-clients", "no",
                      "--tls-cluster", "yes"});
    redis_options o = at(port);
    o.tls = {true, f.name() + "/server.crt"};
    redis_store s(o);
    CHECK(put(s, {"a", today()}) == put_result::stored);
    const std::string links = c.server.say({"CLIENT", "LIST"});
    CHECK(links.find(":" + std::to_string(c.server.port()) + " ") == std::string::npos);
}
