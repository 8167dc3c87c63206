// The store in a Redis server: its answers equal those of the store in memory, it can be shared,
// and it reports problems of a server.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "../src/local/server_clock.hpp"
#include "answers.hpp"
#include "server_facts.hpp"
#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/foreign_records.hpp"
#include "support/redis_server.hpp"
#include "support/transitions.hpp"
#include "tvec/durable/redis_store.hpp"
#include "tvec/durable/timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::redis_server, support::refuses;

TestSuite(durable_redis, .timeout = 600);

namespace {

redis_options at(const redis_server& s, unsigned shards = 3) {
    redis_options o;
    o.socket = s.socket();
    o.shards = shards;
    return o;
}

int functions_called(const redis_server& server) {
    const std::string all = server.say({"INFO", "commandstats"});
    return std::stoi(all.substr(all.find("cmdstat_fcall:calls=") + 20));
}

}  // namespace

Test(durable_redis, it_answers_as_the_store_in_memory_does) {
    const redis_server server;
    redis_store s(at(server));
    support::answers_as_the_store_in_memory(s, 3'000);
}

Test(durable_redis, every_event_changes_timers_as_in_memory) {
    const redis_server server;
    redis_store s(at(server));
    support::transitions::are_those_of_the_store_in_memory(s);
}

Test(durable_redis, it_keeps_what_stores_promise_of_a_shard) {
    const redis_server server;
    for (std::size_t i = 0; i < support::promises_of_a_shard.size(); ++i) {
        redis_options o = at(server, 1);
        o.name = "set_" + std::to_string(i);
        redis_store s(o);
        support::promises_of_a_shard[i](s);
    }
}

Test(durable_redis, attempts_begin_anew_after_the_last) {
    const redis_server server;
    redis_store s(at(server, 1));
    own(s, 0);
    server.say({"HSET", "{tvec:0}:own", "a", "1073741823"});
    support::attempts_begin_anew(s);
}

Test(durable_redis, a_shard_has_one_owner_at_a_time) {
    const redis_server server;
    redis_store a(at(server)), b(at(server));
    support::has_one_owner_at_a_time(a, b);
}

Test(durable_redis, departed_or_silent_processes_are_no_longer_counted) {
    const redis_server server;
    redis_store a(at(server)), silent(at(server));
    support::counts_no_departed_or_silent_process(a, std::make_unique<redis_store>(at(server)),
                                                  silent);
}

Test(durable_redis, processes_with_different_terms_are_warned) {
    const redis_server server;
    const auto with = [&](const char* terms) {
        redis_options o = at(server);
        o.terms = terms;
        return std::make_unique<redis_store>(o);
    };
    support::warn_of_other_terms(*with("stream"), *with("stream"), *with(""), with("hook"));
}

Test(durable_redis, owners_are_told_of_puts_before_their_horizon) {
    const redis_server server;
    redis_store a(at(server, 1)), b(at(server, 1));
    std::vector<std::string> hints;
    a.listen({[&](unsigned, const std::string& id, time_point) { hints.push_back(id); }, {}});
    take(a, 0, own(a, 0), {}, today() + 60s, 10);
    put(a, {"mine", today() + 1s});
    put(b, {"behind", today() + 61s});
    // A new subscriber may miss the first messages.
    for (int i = 0;; ++i) {
        if (!hints.empty()) break;
        put(b, {"near " + std::to_string(i), today() + 1s});
        find(a, "any");
    }
    CHECK(hints.front().starts_with("near"));
}

Test(durable_redis, a_turn_sends_one_put_command_per_shard) {
    const redis_server server;
    redis_store s(at(server));
    const int before = functions_called(server);
    int stored = 0;
    const auto note = [&](const auto& r) { stored += r.front() == put_result::stored; };
    for (int i = 0; i < 900; ++i)
        s.submit(operations::put{{{std::to_string(i), today() + 1h}}, existing::keep, note});
    while (s.unanswered() != 0) s.run();
    CHECK_EQ(stored, 900);
    CHECK_EQ(functions_called(server) - before, 3);
    CHECK_EQ(count(s).waiting, 900U);
}

Test(durable_redis, a_turn_gives_a_limited_number_of_answers) {
    const redis_server server;
    redis_store s(at(server, 1));
    const epoch e = own(s, 0);
    const int before = functions_called(server);
    for (int i = 0; i < 12'000; ++i) s.submit(operations::claim{0, e, {}, {std::to_string(i)}});
    s.run();
    while (functions_called(server) < before + 24) continue;  // their answers have arrived
    std::size_t turns = 0;
    for (; s.unanswered() != 0; ++turns) {
        pollfd watched{s.fd(), POLLIN, 0};
        REQUIRE_EQ(poll(&watched, 1, 10'000), 1);
        CHECK_LE(s.run(), 3'000U);
    }
    CHECK(turns >= 4);
}

Test(durable_redis, puts_that_keep_and_replace_are_not_mixed) {
    const redis_server server;
    redis_store s(at(server, 1));
    for (const char* id : {"a", "b"}) put(s, {id, today()});
    std::vector<put_result> puts;
    const auto put_it = [&](const char* id, existing how) {
        const auto note = [&](const auto& r) { puts.push_back(r.front()); };
        s.submit(operations::put{{{id, today() + 1h}}, how, note});
    };
    put_it("a", existing::keep);
    put_it("b", existing::replace);
    while (s.unanswered() != 0) s.run();
    CHECK((puts == std::vector{put_result::there_already, put_result::stored}));
}

Test(durable_redis, a_list_includes_timers_that_are_being_delivered) {
    const redis_server server;
    redis_store s(at(server, 2));
    std::vector<std::string> ids;
    for (int i = 0; i < 2'500; ++i) {
        ids.push_back("t" + std::to_string(10'000 + i));
        s.submit(operations::put{{{ids.back(), today() - 1h + duration(i)}}, existing::keep});
    }
    for (unsigned shard = 0; shard < 2; ++shard) {
        const epoch e = own(s, shard);
        std::vector<std::string> half;
        for (std::size_t i = 0; i < ids.size(); i += 2)
            if (s.shard_of(ids[i]) == shard) half.push_back(ids[i]);
        answer_to(s, operations::claim{shard, e, {}, half});
    }
    std::vector<std::string> seen;
    for (place last{};;) {
        const auto page = list(s, timer_set::waiting, last, 999);
        if (page.empty()) break;
        for (const stored_timer& t : page) seen.push_back(t.id);
        last = {page.back().due, page.back().id};
    }
    CHECK(seen == ids);
}

Test(durable_redis, the_clock_of_the_server_is_never_overtaken) {
    detail::server_clock c;
    const detail::server_clock::local start{};
    const reading said{1'000'000us};
    CHECK(c.at(start) == reading{});
    c.learn(said, start, start + 10ms);
    CHECK(c.at(start + 10ms) == said);
    CHECK(c.at(start + 10ms + 1s) == said + 999'900us);  // slower than this machine's clock
    c.learn(said + 1s, start + 1s, start + 1s + 20ms);   // less precise than the known bounds
    CHECK(c.at(start + 1s + 20ms) > said + 1s);
    c.learn(said + 1h, start + 2s, start + 2s);  // set forward
    CHECK(c.at(start + 2s) == said + 1h);
    c.learn(said, start + 3s, start + 3s + 1ms);  // set back
    CHECK(c.at(start + 3s + 1ms) == said);
}

Test(durable_redis, an_unsafe_server_is_refused_or_warned_of) {
    const std::string good = "redis_version:7.0.15\r\nrole:master\r\nloading:0\r\naof_enabled:1\r\n"
                             "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n";
    const auto with = [&](const std::string& was, const std::string& is) {
        std::string info = good;
        return redis::judge(info.replace(info.find(was), was.size(), is), "always").refusal;
    };
    CHECK(redis::judge(good, "always").refusal.empty());
    CHECK(redis::judge(good, "always").warning.empty());
    CHECK(redis::judge(good, "everysec").warning.find("power cut") != std::string::npos);
    CHECK(redis::judge(good, "no").warning.find("power cut") != std::string::npos);
    CHECK(redis::judge(good, "").warning.find("does not tell") != std::string::npos);
    CHECK(redis::judge("", "").code == std::errc::protocol_error);
    CHECK(with("7.0.15", "6.2.1").find("7.0 is needed") != std::string::npos);
    CHECK(with("7.0.15", "8.0.0").empty());
    CHECK(with("master", "slave").find("replica") != std::string::npos);
    CHECK(with("loading:0", "loading:1").find("loading") != std::string::npos);
    CHECK(with("aof_enabled:1", "aof_enabled:0").find("appendonly") != std::string::npos);
    CHECK(with("maxmemory:0", "maxmemory:9").find("allkeys-lru") != std::string::npos);
}

Test(durable_redis, a_server_without_appendonly_is_refused) {
    const redis_server server({"--appendonly", "no"});
    refuses(at(server), std::errc::operation_not_permitted, "appendonly is no");
}

Test(durable_redis, possible_losses_are_named_in_one_line) {
    const redis_server server({"--appendonly", "yes", "--appendfsync", "everysec"});
    CHECK(redis_store(at(server)).warning().find("everysec") != std::string::npos);
    server.say({"CONFIG", "SET", "appendfsync", "always"});
    CHECK_EQ(redis_store(at(server)).warning(), "");
}

Test(durable_redis, a_password_is_asked_for_and_given) {
    const redis_server server({"--appendonly", "yes", "--requirepass", "secret"});
    redis_options o = at(server);
    refuses(o, std::errc::permission_denied, "NOAUTH");
    o.password = "wrong";
    refuses(o, std::errc::permission_denied, "WRONGPASS");
    o.password = "secret";
    redis_store s(o);
    CHECK(put(s, {"a", today()}) == put_result::stored);
}

// tests/programs/redis_rights.py has the rights of the page.
Test(durable_redis, a_user_needs_no_right_to_load_functions) {
    const redis_server server;
    server.say({"ACL", "SETUSER", "timers", "on", ">secret", "~{tvec*", "&tvec:*", "+fcall",
                "+info", "+subscribe", "+@write", "-function", "+@read", "+time", "+publish"});
    redis_options o = at(server);
    o.user = "timers";
    refuses(o, std::errc::permission_denied, "WRONGPASS");  // and not as `default`
    o.password = "secret";
    refuses(o, std::errc::permission_denied, "`tvec-timers install`");
    redis_store(at(server));
    redis_store s(o);
    CHECK(s.warning().find("does not tell") != std::string::npos);
    CHECK(put(s, {"a", today()}) == put_result::stored);
    server.say({"ACL", "SETUSER", "timers", "+config|get"});
    CHECK_EQ(redis_store(o).warning(), "");
    o.name = "another";
    refuses(o, std::errc::permission_denied, "NOPERM");
}

Test(durable_redis, older_functions_are_replaced_and_newer_ones_refused) {
    const redis_server server;
    const auto load = [&](const std::string& version) {
        server.say({"FUNCTION", "LOAD", "REPLACE",
                    "#!lua name=tvec_durable\nredis.register_function{function_name='tvec_durable_"
                    "version', callback=function() return " +
                        version + " end, flags={'no-writes'}}"});
    };
    load("0");
    {
        redis_store s(at(server));
        CHECK(put(s, {"a", today()}) == put_result::stored);
    }
    load("99");
    refuses(at(server), std::errc::not_supported, "version 99");
    CHECK_EQ(server.say({"FCALL", "tvec_durable_version", "0"}), "99");
}

namespace {

// Data of version 1 of the functions: waiting timers, one with a period, two with open attempts,
// two dead.
constexpr const char* of_version_1 = R"lua(
local k = '{tvec:0}:'
local function try(key, id, ...) redis.call('HSET', k .. key, id, struct.pack('<I4I4I8', ...)) end
local function put(id, score, body)
  redis.call('ZADD', k .. 'due', score, id)
  redis.call('HSET', k .. 'job', id, body)
end
for i = 1, 500 do put('waiting ' .. i, 5000 + i, 'body') end
put('large', 9000, string.rep('x', 5000))
put('period', 9001, 'p')
try('try', 'period', 2, 2, 86400000)
put('first', 253402300799999, 'f')
redis.call('ZADD', k .. 'begun', 10, 'first')
put('third', 20, 't')
redis.call('ZADD', k .. 'begun', 11, 'third')
try('try', 'third', 3, 1, 0)
for _, id in ipairs({'dead', 'first'}) do
  redis.call('ZADD', k .. 'dead', 12, id)
  redis.call('HSET', k .. 'dead:job', id, 'd')
  try('dead:try', id, 4, 1, 0)
end
redis.call('ZADD', '{tvec}:members', 253402300799999, 'someone')
redis.call('HSET', '{tvec}:meta', 'version', 1, 'shards', 1)
)lua";

}  // namespace

Test(durable_redis, timers_of_version_1_are_upgraded) {
    const redis_server server;
    server.say({"EVAL", of_version_1, "0"});
    redis_store s(at(server));
    CHECK_EQ(s.traits().shards, 1U);
    CHECK_EQ(count(s).waiting, 504U);
    CHECK_EQ(count(s).dead, 1U);
    CHECK_EQ(find(s, "waiting 7")->body, "body");
    CHECK(find(s, "waiting 7")->due == time_point(5007ms));
    CHECK_EQ(find(s, "large")->body, std::string(5'000, 'x'));
    CHECK(find(s, "period")->every == 24h);
    CHECK_EQ(find(s, "period")->attempt, 2U);
    CHECK(find(s, "first")->due == time_point(10ms));
    CHECK_EQ(find(s, "first")->attempt, 1U);
    CHECK_EQ(list(s, timer_set::dead).front().id, "dead");
    CHECK_EQ(list(s, timer_set::dead).front().attempt, 4U);
    CHECK_EQ(join(s), 1U);
    own(s, 0);
    const claimed third = claim(s, "third", 10s);
    CHECK(third.what == claimed::kind::granted);
    CHECK_EQ(third.timer.attempt, 4U);
    CHECK_EQ(third.timer.ended, 1U);
    CHECK_EQ(third.timer.spent, 0U);
    CHECK_EQ(server.say({"EXISTS", "{tvec:0}:job", "{tvec:0}:try", "{tvec:0}:dead:job",
                         "{tvec:0}:dead:try", "{tvec}:members"}),
             "0");
    CHECK_EQ(server.say({"HGET", "{tvec}:meta", "version"}), "8");
}

// Their entries are those of timers without texts.
Test(durable_redis, timers_of_versions_2_to_7_stay_unchanged) {
    for (const char* version : {"2", "3", "4", "5", "6", "7"}) {
        const redis_server server;
        {
            redis_store s(at(server, 1));
            CHECK(put(s, {"a", today() + 1h, "body"}) == put_result::stored);
        }
        CHECK_EQ(server.say({"HSTRLEN", "{tvec:0}:timer", "a"}), "33");
        server.say({"HSET", "{tvec}:meta", "version", version});
        server.say({"DEL", "{tvec:0}:own"});
        redis_store s(at(server, 1));
        CHECK_EQ(find(s, "a")->body, "body");
        CHECK_EQ(count(s).waiting, 1U);
        CHECK_EQ(server.say({"HGET", "{tvec}:meta", "version"}), "8");
        CHECK_EQ(server.say({"HMGET", "{tvec:0}:own", "s", "v"}), "1\n8");
        CHECK(server.say({"FCALL", "tvec_durable_3_count", "0"}).find("not found") !=
              std::string::npos);
    }
}

Test(durable_redis, timers_without_texts_spend_no_bytes_on_texts) {
    const redis_server server;
    redis_store s(at(server, 1));
    const auto size = [&] { return server.say({"HSTRLEN", "{tvec:0}:timer", "a"}); };
    put(s, {"a", today() - 1h, "body"});
    CHECK_EQ(size(), "33");
    own(s, 0);
    claim(s, "a");
    end(s, {{"a", 1}, outcome::failed, {}, "why"});
    CHECK_EQ(size(), "55");
    claim(s, "a");
    end(s, {{"a", 2}, outcome::again, today()});
    CHECK_EQ(size(), "33");
}

Test(durable_redis, any_byte_may_be_in_a_text) {
    const redis_server server;
    redis_store s(at(server, 1));
    const std::string any("a \0\n\xff\r b", 9), large(5'000, 'x');
    put(s, {"a", today() - 1h, large, {}, any});
    own(s, 0);
    claim(s, "a");
    CHECK(end(s, {{"a", 1}, outcome::again, today() - 1h, {}, any}).was_current);
    claim(s, "a");
    const std::string reason = any + std::string(longest_reason - any.size(), 'x');
    CHECK(end(s, {{"a", 2}, outcome::failed, {}, reason}).was_current);
    const stored_timer got = claim(s, "a").timer;
    CHECK_EQ(got.body, large);
    CHECK_EQ(got.plan, any);
    CHECK_EQ(got.history, any);
    CHECK_EQ(got.verdict, "failed " + reason);
    CHECK_EQ(find(s, "a")->history, any);
}

Test(durable_redis, extending_a_lease_keeps_its_attempt_spent) {
    const redis_server server;
    redis_store s(at(server, 1));
    put(s, {"a", today() - 1h});
    const epoch e = own(s, 0);
    claim(s, "a");
    CHECK(spend(s, {"a", 1}));
    const time_point before = today();
    CHECK(extend(s, {"a", 1}, 1h));
    CHECK(!extend(s, {"a", 2}, 1h));
    CHECK(!extend(s, {"b", 1}, 1h));
    const claimed again = claim(s, "a");
    CHECK(again.what == claimed::kind::early);
    CHECK(again.timer.due >= before + 1h);
    CHECK(std::get<1>(take(s, 0, e, {}, before + 59min, 1)).empty());
    CHECK(spend(s, {"a", 1}));  // once for each attempt
    CHECK_EQ(find(s, "a")->spent, 1U);
    CHECK(end(s, {{"a", 1}}).was_current);
    CHECK(!extend(s, {"a", 1}, 1h));
}

Test(durable_redis, a_list_with_a_prefix_fills_its_page) {
    const redis_server server;
    redis_store s(at(server, 2));
    std::vector<std::string> ids;
    std::vector<record> all;
    for (int i = 0; i < 5'000; ++i) {
        const std::string id =
            (i % 1'000 == 999 ? "wanted " : "other ") + std::to_string(10'000 + i);
        all.push_back({id, today() + duration(i)});
        if (id.starts_with("wanted")) ids.push_back(id);
    }
    answer_to(s, operations::put{all, existing::keep});
    const auto listed = [&](const place& after, std::size_t limit, const std::string& prefix) {
        std::vector<std::string> seen;
        for (const stored_timer& t : list(s, timer_set::waiting, after, limit, prefix))
            seen.push_back(t.id);
        return seen;
    };
    CHECK(listed({}, 100, "wanted ") == ids);
    CHECK((listed({}, 2, "wanted ") == std::vector(ids.begin(), ids.begin() + 2)));
    const stored_timer second = *find(s, ids[1]);
    CHECK((listed({second.due, second.id}, 2, "wanted ") ==
           std::vector(ids.begin() + 2, ids.begin() + 4)));
    CHECK(listed({}, 100, "none").empty());
    CHECK(listed({}, 0, "wanted ").empty());
}

// The owner has to apply the plan, or to deliver, without waiting for its sweep or for the lease.
Test(durable_redis, owners_are_told_of_ends_touches_and_revivals) {
    const redis_server server;
    redis_store a(at(server, 1)), b(at(server, 1));
    std::vector<std::string> hints;
    time_point done_at;
    a.listen({[&](unsigned, const std::string& id, time_point due) {
                  hints.push_back(id);
                  if (id == "done") done_at = due;
              },
              {}});
    const std::string plan = "any";
    put(a, {"done", today() - 1h, "", {}, plan});
    put(a, {"again", today() - 1h});
    put(a, {"touched", today() + 1h});
    put(a, {"removed", today() - 1h});
    put(a, {"revived", today() - 1h});
    const epoch mine = own(a, 0);
    take(a, 0, mine, {}, today() + 60s, 10);
    for (int i = 0; hints.empty(); ++i) {  // a new subscriber may miss the first messages
        put(b, {"near " + std::to_string(i), today() + 1s});
        find(a, "any");
    }
    hints.clear();
    for (const char* id : {"done", "again", "removed", "revived"}) claim(a, id, 1h);
    CHECK(end(a, {{"again", 1}, outcome::again, today()}).was_current);  // its own is no news
    claim(a, "again", 1h);
    CHECK(end(a, {{"revived", 1}, outcome::dead}).was_current);
    CHECK(end(b, {{"removed", 1}}).was_current);
    CHECK(end(b, {{"done", 1}}).was_current);
    CHECK(end(b, {{"again", 2}, outcome::again, today()}).was_current);
    CHECK(touch(b, "touched", today() + 1s) == touch_result::touched);
    CHECK(revive(b, "revived", today()) == revive_result::revived);
    put(b, {"last", today()});  // hints come in order
    turn_until(a, [&] { return std::ranges::count(hints, "last") != 0; });
    std::erase_if(hints, [](const std::string& id) { return id.starts_with("near"); });
    CHECK((hints == std::vector<std::string>{"done", "again", "touched", "revived", "last"}));
    // The owner ignores a hint with the deadline of its delivery.
    CHECK(done_at > find(a, "done")->due);
}

Test(durable_redis, a_stale_end_hides_no_current_one) {
    const redis_server server;
    redis_store s(at(server, 1));
    put(s, {"a", today() - 1h});
    own(s, 0);
    claim(s, "a");
    claim(s, "a");
    const auto ends =
        std::get<1>(answer_to(s, operations::end{0, {{{"a", 1}}, {{"a", 2}}, {{"a", 2}}}}));
    CHECK(!ends.at(0).was_current);
    CHECK(ends.at(1).was_current);
    CHECK(!ends.at(2).was_current);
    CHECK_EQ(count(s).waiting, 0U);
}

Test(durable_redis, a_store_of_a_newer_version_is_refused) {
    const redis_server server;
    server.say({"HSET", "{tvec}:meta", "version", "99"});
    refuses(at(server), std::errc::not_supported, "version 99");
}

Test(durable_redis, the_first_process_decides_the_number_of_shards) {
    const redis_server server;
    const redis_store a(at(server, 5)), b(at(server, 9));
    CHECK_EQ(a.traits().shards, 5U);
    CHECK_EQ(b.traits().shards, 5U);
    redis_options other = at(server, 9);
    other.name = "other";
    CHECK_EQ(redis_store(other).traits().shards, 9U);
}

Test(durable_redis, options_that_cannot_be_right_are_refused) {
    const auto with = [](auto change) {
        redis_options o;
        change(o);
        refuses(o, std::errc::invalid_argument, "redis_store");
    };
    with([](redis_options& o) { o.name = "a{b"; });
    with([](redis_options& o) { o.name = ""; });
    with([](redis_options& o) { o.shards = 0; });
    with([](redis_options& o) { o.shards = 10'000; });
    with([](redis_options& o) { o.replica_limit = o.silence; });
    with([](redis_options& o) { o.max_unsent_bytes = largest_body; });
}

Test(durable_redis, an_option_that_cannot_be_right_is_named) {
    const auto names = [](const std::string& name, duration redis_options::*option) {
        for (const duration wrong : {duration(-2), duration::max(), duration::min()}) {
            redis_options o;
            o.*option = wrong;
            refuses(o, std::errc::invalid_argument, "redis_options::" + name + " is ");
        }
    };
    names("claim_ahead", &redis_options::claim_ahead);
    names("silence", &redis_options::silence);
    names("slowest", &redis_options::slowest);
    names("look_again", &redis_options::look_again);
    names("replica_limit", &redis_options::replica_limit);
}

Test(durable_redis, a_full_server_refuses_puts_and_still_delivers) {
    const redis_server server;
    redis_store s(at(server, 1));
    put(s, {"a", today() - 1s});
    put(s, {"b", today() + 1h});
    own(s, 0);
    server.say({"CONFIG", "SET", "maxmemory", "1"});
    CHECK(put(s, {"c", today()}) == put_result::failed);
    CHECK(s.last_failure().find("OOM") != std::string::npos);
    const claimed got = claim(s, "a", 10s);
    CHECK(got.what == claimed::kind::granted);
    CHECK(end(s, {{"a", got.timer.attempt}}).was_current);
    CHECK(cancel(s, "b") == cancel_result::cancelled);
    server.say({"CONFIG", "SET", "maxmemory", "0"});
    CHECK(put(s, {"c", today()}) == put_result::stored);
}

Test(durable_redis, attempts_and_hints_out_of_range_are_rejected) {
    redisReply number{}, list{};
    number.type = REDIS_REPLY_INTEGER;
    redisReply* all[] = {&number};
    list.type = REDIS_REPLY_ARRAY;
    list.elements = 1;
    list.element = all;
    const auto is_attempt = [&](long long n) {
        number.integer = n;
        redis::fields f(list);
        redis::attempt_of(f);
        return f.is_whole();
    };
    CHECK(is_attempt(4'294'967'295));
    CHECK(!is_attempt(4'294'967'296));
    CHECK(redis::hint_of("253402300799999 a")->id == "a");
    CHECK(!redis::hint_of("253402300800000 a").has_value());
    CHECK(!redis::hint_of("-1 a").has_value());
}

Test(durable_redis, no_lease_counts_for_longer_than_its_length) {
    const redis_server server;
    redis_store a(at(server, 1)), b(at(server, 1));
    put(a, {"x", today() - 1h, "body"});
    own(a, 0);
    join(a);
    CHECK(claim(a, "x", 1h).what == claimed::kind::granted);
    // The server's earlier clock was ten days ahead.
    server.say({"EVAL", R"lua(
        local ahead, own = 864000000, '{tvec:0}:own'
        redis.call('HINCRBY', own, 'u', ahead)
        redis.call('ZINCRBY', '{tvec:0}:begun', ahead, 'x')
        local entry = redis.call('HGET', '{tvec:0}:timer', 'x')
        local till = struct.unpack('<I8', entry, 30) + ahead
        local short = entry:sub(1, 29) .. struct.pack('<I8I8', till, 20) .. entry:sub(46)
        redis.call('HSET', '{tvec:0}:timer', 'x', short)
        for _, name in ipairs(redis.call('HKEYS', '{tvec}:processes')) do
          redis.call('HSET', '{tvec}:processes', name, till .. ' 10000')
        end)lua",
                "0"});
    CHECK_EQ(join(b), 1U);
    const epoch mine = own(b, 0);
    CHECK_EQ(mine, 2U);
    std::vector<place> got;
    while (got.empty()) got = std::get<1>(take(b, 0, mine, {}, today(), 10));
    CHECK_EQ(got.front().id, "x");
    const auto again = std::get<1>(answer_to(b, operations::claim{0, mine, {}, {"x"}}));
    CHECK(again.at(0).what == claimed::kind::granted);
    CHECK_EQ(again.at(0).timer.attempt, 2U);
}

Test(durable_redis, damaged_records_are_set_aside_and_others_come) {
    const redis_server server;
    redis_store s(at(server, 1));
    const std::string large(5'000, 'x');
    for (const char* id : {"bytes", "gone", "body", "good"}) put(s, {id, today() - 1h, large});
    put(s, {"score", today() + 1h});
    const epoch e = own(s, 0);
    server.say({"HSET", "{tvec:0}:timer", "bytes", "zz"});
    server.say({"HDEL", "{tvec:0}:timer", "gone"});
    server.say({"HDEL", "{tvec:0}:body", "body"});
    server.say({"ZADD", "{tvec:0}:due", "1.5", "score"});
    server.say({"ZADD", "{tvec:0}:due", "-5", "nobody"});
    const auto taken = std::get<1>(take(s, 0, e, {}, today(), 3));
    CHECK_EQ(taken.size(), 5U);
    CHECK_EQ(std::ranges::count(taken, std::string(), &place::id), 2);
    CHECK_EQ(count(s).damaged, 2U);
    const auto got = std::get<1>(
        answer_to(s, operations::claim{0, e, {}, {"bytes", "gone", "body", "good", "unknown"}}));
    using enum claimed::kind;
    std::vector<claimed::kind> kinds;
    for (const claimed& c : got) kinds.push_back(c.what);
    CHECK((kinds == std::vector{damaged, damaged, damaged, granted, gone}));
    CHECK_EQ(got[3].timer.body, large);
    CHECK_EQ(count(s).damaged, 5U);
    CHECK_EQ(count(s).waiting, 1U);
    CHECK(!find(s, "body").has_value());
    CHECK(put(s, {"body", today()}) == put_result::dead);
    CHECK(put(s, {"body", today()}, existing::replace) == put_result::stored);
    CHECK(find(s, "body")->attempt > 1'000'000);
    for (const char* id : {"bytes", "gone", "score", "nobody"})
        CHECK(cancel(s, id) == cancel_result::had_begun);
    CHECK(cancel(s, "bytes") == cancel_result::unknown_id);
    CHECK_EQ(count(s).damaged, 0U);
}

// Its ends go to the shard of its id, so it would come again for ever.
Test(durable_redis, a_record_in_another_shard_is_set_aside) {
    const redis_server server;
    redis_store s(at(server, 2));
    own(s, 0);
    own(s, 1);
    std::string id = "a";
    while (s.shard_of(id) == 0) id += "a";
    put(s, {id, today()});
    server.say({"EVAL",
                "redis.call('HSET', '{tvec:0}:timer', ARGV[1], redis.call('HGET', "
                "'{tvec:1}:timer', ARGV[1])) redis.call('ZADD', '{tvec:0}:due', 1, ARGV[1])",
                "0", id});
    for (const auto kind : {claimed::kind::granted, claimed::kind::granted, claimed::kind::damaged,
                            claimed::kind::gone}) {
        const claim_terms over{-1h, claim_terms{}.bytes};
        const auto got = std::get<1>(answer_to(s, operations::claim{0, 1, over, {id}}));
        CHECK(got.front().what == kind);
    }
    CHECK_EQ(count(s).damaged, 1U);
    for (int i = 0; i < 4; ++i) CHECK(claim(s, id, -1h).what == claimed::kind::granted);
}

Test(durable_redis, foreign_records_stop_no_other_timers) {
    const redis_server server;
    redis_store s(at(server, 1));
    support::foreign_records foreign;
    redis_server::words records{"EVAL", R"lua(
        local function bytes(hex)
          return (hex:gsub('..', function(byte) return string.char(tonumber(byte, 16)) end))
        end
        for i = 1, #ARGV, 4 do
          local key, due, id, entry = unpack(ARGV, i, i + 3)
          redis.call('HSET', '{tvec:0}:timer', bytes(id), bytes(entry))
          redis.call('ZADD', '{tvec:0}:' .. key, due, bytes(id))
        end)lua",
                                "0"};
    constexpr const char* keys[] = {"due", "begun", "dead"};
    for (int i = 0; i < 300; ++i) {
        const support::foreign_record r = foreign.next();
        for (const std::string& word : {std::string(keys[r.place]), std::to_string(r.due),
                                        support::hex(r.id), support::hex(r.packed)})
            records.push_back(word);
    }
    server.say(records);
    support::others_come(s);
    CHECK(count(s).damaged > 0U);
}

Test(durable_redis, impossible_ids_are_set_aside_and_not_overdue) {
    for (const std::string& id : {std::string(), std::string(256, 'a')}) {
        for (const char* const till : {"5", "900000000000000"}) {
            const redis_server server;
            redis_store s(at(server, 1));
            server.say({"EVAL", R"lua(
                local id, till = ARGV[1], ARGV[2]
                redis.call('HSET', '{tvec:0}:timer', id,
                  struct.pack('<BI4I4I4I8I8I8I8', 1, 5, 0, 0, 0, 1, till, till) .. 'body')
                redis.call('ZADD', '{tvec:0}:begun', till, id))lua",
                        "0", id, till});
            const auto late = [&s] { return std::get<1>(answer_to(s, operations::oldest{""})); };
            CHECK(!late().has_value());
            put(s, {"good", today() - 1h});
            CHECK(late().has_value() && late()->id == "good");
            const auto got = std::get<1>(take(s, 0, own(s, 0), {}, today(), 10));
            CHECK_EQ(got.back().id, "good");
            CHECK_EQ(std::ranges::count(got, std::string(), &place::id), *till == '5' ? 1 : 0);
            CHECK_EQ(count(s).damaged, 1U);
            server.say({"DEL", "{tvec:0}:damaged"});
            CHECK_EQ(count(s).damaged, 0U);
        }
    }
}

Test(durable_redis, bodies_beyond_the_bound_are_set_aside) {
    const redis_server server;
    redis_store s(at(server, 1));
    for (const char* id : {"apart", "entry", "largest"})
        put(s, {id, today() - 1h, std::string(largest_body, 'x')});
    own(s, 0);
    server.say({"EVAL", R"lua(
        local long = string.rep('x', 1048577)
        redis.call('HSET', '{tvec:0}:body', 'apart', long)
        local entry = redis.call('HGET', '{tvec:0}:timer', 'entry')
        redis.call('HSET', '{tvec:0}:timer', 'entry', '\0' .. entry:sub(2) .. long))lua",
                "0"});
    for (const char* id : {"apart", "entry"}) {
        CHECK(!find(s, id).has_value());
        CHECK(claim(s, id).what == claimed::kind::damaged);
    }
    CHECK_EQ(claim(s, "largest").timer.body.size(), largest_body);
    CHECK_EQ(count(s).damaged, 2U);
}

Test(durable_redis, timers_with_unreadable_texts_are_set_aside) {
    const redis_server server;
    redis_store s(at(server, 1));
    for (const char* id : {"long", "short", "mark", "good"})
        put(s, {id, today() - 1h, "body", {}, "plan"});
    own(s, 0);
    const auto damage = [&](const std::string& id, const std::string& change) {
        server.say({"EVAL",
                    "local e = redis.call('HGET', '{tvec:0}:timer', ARGV[1]) redis.call('HSET', "
                    "'{tvec:0}:timer', ARGV[1], " +
                        change + ")",
                    "0", id});
    };
    damage("long", "e:sub(1, 29) .. struct.pack('<I4', 9) .. e:sub(34)");
    damage("short", "e:sub(1, 40)");
    damage("mark", "string.char(16) .. e:sub(2)");
    for (const char* id : {"long", "short", "mark"}) {
        CHECK(!find(s, id).has_value());
        CHECK(touch(s, id, today()) == touch_result::unknown_id);
        CHECK(put(s, {id, today()}, existing::sooner) == put_result::there_already);
        CHECK(claim(s, id).what == claimed::kind::damaged);
        CHECK(put(s, {id, today()}, existing::later) == put_result::dead);
        CHECK(cancel(s, id) == cancel_result::had_begun);
    }
    CHECK_EQ(claim(s, "good").timer.plan, "plan");
}

Test(durable_redis, a_page_with_an_invalid_place_is_rejected) {
    const redis_server server;
    redis_store s(at(server, 1));
    const epoch e = own(s, 0);
    server.say({"FUNCTION", "LOAD", "REPLACE",
                "#!lua name=tvec_durable\nredis.register_function('tvec_durable_8_take', "
                "function() return {1, {'a', '1', 'b', '1.5', 'c', '2'}, 0} end)"});
    CHECK(std::get<0>(take(s, 0, e, {}, today(), 10)) == standing::unknown);
    CHECK(s.last_failure().find("not as it should be") != std::string::npos);
}

Test(durable_redis, a_list_transfers_only_bodies_of_its_page) {
    const redis_server server;
    redis_store s(at(server));
    constexpr std::size_t size = 50'000;
    for (int i = 0; i < 100; ++i)
        put(s, {std::to_string(1'000 + i), today() + 1h + duration(i), std::string(size, 'x')});
    const auto sent = [&] {
        const std::string all = server.say({"INFO", "stats"});
        return std::stoull(all.substr(all.find("total_net_output_bytes:") + 23));
    };
    const auto before = sent();
    const auto page = list(s, timer_set::waiting, {}, 10);
    REQUIRE_EQ(page.size(), 10U);
    CHECK_EQ(page.back().id, "1009");
    CHECK(sent() - before < 15 * size);
}

Test(durable_redis, a_forked_child_leaves_the_link_alone) {
    const redis_server server;
    support::outlives_a_forked_child(std::make_unique<redis_store>(at(server, 1)));
}

Test(durable_redis, keys_of_other_types_are_reported_and_kept) {
    const redis_server server;
    redis_store s(at(server, 1));
    server.say({"SET", "{tvec:0}:timer", "mine"});
    CHECK(put(s, {"a", today()}) == put_result::unknown);
    CHECK(s.last_failure().find("WRONGTYPE") != std::string::npos);
    CHECK_EQ(server.say({"GET", "{tvec:0}:timer"}), "mine");
}

Test(durable_redis, timers_on_it_come_and_are_never_early) {
    const redis_server server;
    redis_store s(at(server));
    support::delivers_fifty(s);
}
