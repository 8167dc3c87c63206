// The functions on the Redis server for programs in any language: what Python cannot see of them.
// programs/any_language_redis.py has the rest.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "../src/local/hash.hpp"
#include "functions.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/redis_server.hpp"
#include "tvec/durable/redis_store.hpp"

using namespace support::asking;
using support::redis_server;

TestSuite(durable_redis_functions, .timeout = 600);

namespace {

redis_store opened(const redis_server& server, unsigned shards) {
    redis_options o;
    o.socket = server.socket();
    o.shards = shards;
    return redis_store(o);
}

// Returns the text of a function of functions.lua.
std::string source_of(const std::string& name) {
    const std::string all = redis::functions;
    const std::size_t begin = all.find("local function " + name + "(");
    REQUIRE(begin != all.npos);
    return all.substr(begin, all.find("\nend\n", begin) + 5 - begin);
}

std::string random_id(std::mt19937& random) {
    std::string id(1 + random() % longest_id, '\0');
    for (char& c : id) c = static_cast<char>(random());
    return id;
}

std::string in_hexadecimal(const std::string& bytes) {
    std::string text;
    for (const char c : bytes) {
        text += "0123456789abcdef"[static_cast<unsigned char>(c) / 16];
        text += "0123456789abcdef"[static_cast<unsigned char>(c) % 16];
    }
    return text;
}

}  // namespace

Test(durable_redis_functions, lua_and_cpp_agree_on_shards_of_ids) {
    const redis_server server;
    std::mt19937 random(1);
    for (const unsigned shards : {1U, 2U, 16U, 1'000U, 9'999U}) {
        redis_server::words ask{"EVAL",
                                source_of("shard_of") +
                                    "local all = {} for i, hex in ipairs(ARGV) do local id = "
                                    "hex:gsub('..', function(x) return "
                                    "string.char(tonumber(x, 16)) end) all[i] = shard_of(id, " +
                                    std::to_string(shards) + ") end return table.concat(all, ' ')",
                                "0"};
        std::string expected;
        for (int i = 0; i < 500; ++i) {
            const std::string id = random_id(random);
            ask.push_back(in_hexadecimal(id));
            expected += (i == 0 ? "" : " ") +
                        std::to_string(tvec::durable::detail::shard_of_id(id, shards));
        }
        CHECK_EQ(server.say(ask), expected);
    }
}

Test(durable_redis_functions, clusters_refuse_names_and_wrong_shards_as_keys) {
    const support::one_node cluster;
    const redis_server& server = cluster.server;
    redis_store s = opened(server, 16);
    const unsigned shard = s.shard_of("a");
    const std::string tag = "{tvec:" + std::to_string(shard) + "}";
    const auto put_to = [&](const std::string& key) {
        return server.say({"FCALL", "tvec_put", "1", key, "a", "1000", "body"});
    };
    CHECK_EQ(put_to("tvec"), "ERR tvec: KEY is 'tvec': this server is in a cluster, and expects "
                             "the tag of the shard of the id");
    const std::string other = "{tvec:" + std::to_string((shard + 1) % 16) + "}";
    CHECK_EQ(put_to(other), "ERR tvec: KEY is '" + other + "', and the id is in shard " +
                                std::to_string(shard) + " of 16: expected " + tag);
    CHECK_EQ(put_to(tag), "stored");
    CHECK_EQ(find(s, "a")->body, "body");
}

Test(durable_redis_functions, a_dead_letter_stays_until_replaced_or_cancelled) {
    const redis_server server;
    redis_store s = opened(server, 1);
    own(s, 0);
    for (const char* id : {"a", "b"}) {
        put(s, {id, today() - 1h});
        claim(s, id);
        CHECK(end(s, {{id, 1}, outcome::dead}).was_current);
    }
    const auto put_a = [&](const char* how) {
        return server.say({"FCALL", "tvec_put", "1", "tvec", "a", "1000", "", "existing", how});
    };
    for (const char* how : {"keep", "sooner", "later"}) CHECK_EQ(put_a(how), "dead");
    CHECK_EQ(server.say({"FCALL", "tvec_touch", "1", "tvec", "a", "1"}), "unknown_id");
    CHECK_EQ(put_a("replace"), "stored");
    CHECK_EQ(find(s, "a")->attempt, 2U);
    CHECK_EQ(server.say({"FCALL", "tvec_cancel", "1", "tvec", "b"}), "had_begun");
    CHECK_EQ(count(s).dead, 0U);
}

Test(durable_redis_functions, the_owner_is_told_at_once) {
    const redis_server server;
    redis_store s = opened(server, 1);
    std::vector<std::string> hints;
    s.listen({[&](unsigned, const std::string& id, time_point) { hints.push_back(id); }, {}});
    put(s, {"done", today() - 1h, "", {}, "plan"});
    put(s, {"touched", today() + 1h});
    take(s, 0, own(s, 0), {}, today() + 60s, 10);
    claim(s, "done", 1h);
    const auto call = [&](redis_server::words rest) {
        redis_server::words all{"FCALL", rest.front(), "1", "tvec"};
        all.insert(all.end(), rest.begin() + 1, rest.end());
        return server.say(all);
    };
    for (int i = 0; hints.empty(); ++i) {  // a new subscriber may miss the first messages
        CHECK_EQ(call({"tvec_put", "near " + std::to_string(i), "1000", ""}), "stored");
        find(s, "any");
    }
    CHECK_EQ(call({"tvec_failed", "done", "1", "why"}), "ok");
    CHECK_EQ(call({"tvec_touch", "touched", "1000"}), "touched");
    CHECK_EQ(call({"tvec_put", "last", "1000", ""}), "stored");  // hints come in order
    turn_until(s, [&] { return std::ranges::count(hints, "last") != 0; });
    CHECK_EQ(std::ranges::count(hints, "done"), 1);
    CHECK_EQ(std::ranges::count(hints, "touched"), 1);
}

Test(durable_redis_functions, ends_succeed_without_memory_and_puts_fail) {
    const redis_server server;
    redis_store s = opened(server, 1);
    put(s, {"a", today() - 1h});
    own(s, 0);
    claim(s, "a", 1h);
    server.say({"CONFIG", "SET", "maxmemory", "1"});
    CHECK(server.say({"FCALL", "tvec_put", "1", "tvec", "b", "1000", ""}).starts_with("OOM"));
    CHECK_EQ(server.say({"FCALL", "tvec_extend", "1", "tvec", "a", "1", "1000"}), "ok");
    CHECK_EQ(server.say({"FCALL", "tvec_failed", "1", "tvec", "a", "1", "why"}), "ok");
    CHECK_EQ(server.say({"FCALL", "tvec_touch", "1", "tvec", "a", "1"}), "touched");
    CHECK_EQ(server.say({"FCALL", "tvec_cancel", "1", "tvec", "a"}), "cancelled");
}
