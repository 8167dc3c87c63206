// The connection to a Redis server breaks, or the server ends, hangs, is replaced, or does not
// exist. The store reports what is known, and stored timers stay.

#include <chrono>
#include <csignal>
#include <optional>
#include <random>
#include <string>
#include <system_error>

#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/certificates.hpp"
#include "support/check.hpp"
#include "support/false_servers.hpp"
#include "support/redis_server.hpp"
#include "support/temporary_folder.hpp"
#include "tvec/durable/redis_store.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::certify, support::liar, support::redis_server, support::refuses, support::stranger;

TestSuite(durable_redis_faults, .timeout = 600);

namespace {

redis_options at(const std::string& socket) {
    redis_options o;
    o.socket = socket;
    o.shards = 1;
    return o;
}

// It does not wait long for an answer.
redis_options impatient(const std::string& socket) {
    redis_options o = at(socket);
    o.silence = 300ms;
    o.replica_limit = 100ms;
    return o;
}

// Connects. Tries again if a busy machine has taken longer than `silence`.
redis_store connected(const redis_options& o) {
    while (true) {
        try {
            return redis_store(o);
        } catch (const std::system_error& e) {
            if (e.code() != std::errc::timed_out) throw;
        }
    }
}

// Puts until that is the answer.
void put_until(store& s, put_result r) {
    while (put(s, {"again", today() + 1h}, existing::replace) != r) continue;
}

}  // namespace

Test(durable_redis_faults, unanswered_requests_are_unknown_and_later_ones_fail) {
    redis_server server;
    redis_store s(at(server.socket()));
    int reconnected = 0;
    s.listen({{}, [&] { ++reconnected; }});
    CHECK(put(s, {"before", today() + 1h}) == put_result::stored);
    server.stop();
    std::optional<put_result> under_way;
    const auto note = [&](const auto& r) { under_way = r[0]; };
    s.submit(operations::put{{{"under way", today() + 1h}}, existing::keep, note});
    s.run();
    server.end(SIGKILL);
    turn_until(s, [&] { return under_way.has_value(); });
    CHECK(*under_way == put_result::unknown);
    CHECK(put(s, {"then", today() + 1h}) == put_result::failed);
    CHECK(cancel(s, "before") == cancel_result::failed);
    CHECK(revive(s, "before", today()) == revive_result::failed);
    CHECK(std::get<0>(answer_to(s, operations::count{})) == standing::unknown);
    CHECK(!s.last_failure().empty());
    server.start();
    turn_until(s, [&] { return reconnected == 1; });
    CHECK(find(s, "before").has_value());
    CHECK(!find(s, "then").has_value());
    CHECK_EQ(s.unanswered(), 0U);
}

Test(durable_redis_faults, a_link_that_was_cut_is_made_again) {
    const redis_server server;
    redis_store s(at(server.socket()));
    int reconnected = 0;
    s.listen({{}, [&] { ++reconnected; }});
    for (int i = 1; i <= 3; ++i) {
        server.say({"CLIENT", "KILL", "TYPE", "normal"});
        turn_until(s, [&] { return reconnected == i; });
        CHECK(put(s, {std::to_string(i), today() + 1h}) == put_result::stored);
    }
    CHECK_EQ(count(s).waiting, 3U);
    CHECK_EQ(s.broken_connections().size(), 1U);
    CHECK_EQ(s.broken_connections().at("connection reset"), 3U);
}

Test(durable_redis_faults, forked_children_keep_no_parent_awake) {
    const redis_server server;
    redis_store s(at(server.socket()));
    support::sleeps_after_a_break_beside_a_child(s, [&] {
        server.say({"CLIENT", "KILL", "TYPE", "normal"});
        server.say({"CLIENT", "KILL", "TYPE", "pubsub"});
    });
}

Test(durable_redis_faults, hints_come_again_after_their_link_was_cut) {
    const redis_server server;
    redis_store a(at(server.socket())), b(at(server.socket()));
    int hints = 0;
    a.listen({[&](unsigned, const std::string&, time_point) { ++hints; }, {}});
    take(a, 0, own(a, 0, 60s), {}, today() + 2h, 1);
    server.say({"CLIENT", "KILL", "TYPE", "pubsub"});
    for (int i = 0;; ++i) {
        if (hints > 0) break;
        put(b, {std::to_string(i), today() + 1h});
        find(a, "any");
    }
    CHECK(hints > 0);
}

// A pause that grew with each cut would last longer than the test may.
Test(durable_redis_faults, pauses_after_cuts_are_reset_once_hints_come) {
    const redis_server server;
    redis_options o = at(server.socket());
    o.slowest = 1h;
    redis_store s(o);
    for (int cuts = 0; cuts < 14;) {
        turn(s, 10ms);
        cuts += server.say({"CLIENT", "KILL", "TYPE", "pubsub"}) == "1";
    }
}

Test(durable_redis_faults, a_silent_server_is_left_until_it_answers) {
    redis_server server;
    redis_store s = connected(impatient(server.socket()));
    server.stop();
    CHECK(put(s, {"a", today() + 1h}) == put_result::unknown);
    CHECK(s.last_failure().find("does not answer") != std::string::npos);
    server.go_on();
    put_until(s, put_result::stored);
    CHECK(find(s, "again").has_value());
    CHECK_EQ(s.broken_connections().at("it does not answer"), 1U);
}

// A server that goes on does what waits in the socket of the broken connection.
Test(durable_redis_faults, a_claim_given_up_is_never_granted) {
    redis_server server;
    redis_store calm(at(server.socket())), s = connected(impatient(server.socket()));
    const epoch e = own(calm, 0);
    put(calm, {"a", today() - 1s});
    server.stop();
    const time_point begun = std::chrono::ceil<duration>(s.now());
    const auto got = std::get<0>(answer_to(s, operations::claim{0, e, {1h}, {"a"}}));
    CHECK(got == standing::unknown);
    turn_until(s, [&] { return s.now() > begun + 700ms; });
    server.go_on();
    put_until(s, put_result::stored);
    CHECK_EQ(find(s, "a")->attempt, 0U);
    const auto again = std::get<1>(answer_to(calm, operations::claim{0, e, {1h}, {"a"}}));
    CHECK(again.at(0).what == claimed::kind::granted);
}

Test(durable_redis_faults, a_hang_keeps_no_timer_for_a_lease) {
    redis_server server;
    redis_store s = connected(impatient(server.socket()));
    support::delivers_after_a_hang(
        s, [&] { server.stop(); }, [&] { server.go_on(); });
}

Test(durable_redis_faults, a_slow_answer_is_awaited_while_it_arrives) {
    const redis_server server;
    liar between(server.socket(), 1);
    redis_options o = at(between.socket());
    o.silence = 1s;
    o.replica_limit = 100ms;
    redis_store s(o);
    const std::string body(largest_body, 'x');
    CHECK(put(s, {"a", today() + 1h, body}) == put_result::stored);
    between.slow_down();
    const auto found = find(s, "a");
    REQUIRE(found.has_value());
    CHECK(found->body == body);
    CHECK(s.broken_connections().empty());
}

Test(durable_redis_faults, an_unacceptable_server_is_left_until_it_recovers) {
    const redis_server server;
    redis_options o = at(server.socket());
    o.look_again = 10ms;
    o.slowest = 20ms;
    redis_store s(o);
    CHECK_EQ(s.warning(), "");
    server.say({"CONFIG", "SET", "appendfsync", "everysec"});
    turn_until(s, [&] { return s.warning().find("everysec") != std::string::npos; });
    server.say({"CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"});
    turn_until(s, [&] { return s.last_failure().find("allkeys-lru") != std::string::npos; });
    CHECK(put(s, {"a", today()}) == put_result::failed);
    CHECK_EQ(s.broken_connections().at("not acceptable any more"), 1U);
    server.say({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
    put_until(s, put_result::stored);
}

Test(durable_redis_faults, a_server_that_is_not_there_is_said) {
    const support::temporary_folder folder;
    refuses(at(folder.name() + "/none"), std::errc::no_such_file_or_directory, "/none");
    refuses(at(folder.name() + std::string(200, 'x')), std::errc::filename_too_long, "xxx");
    redis_options o;
    o.port = static_cast<std::uint16_t>(support::free_port());
    refuses(o, std::errc::connection_refused, "127.0.0.1:" + std::to_string(o.port));
    o.host = std::string(64, 'x');  // too long for a name: needs no name server
    refuses(o, std::errc::host_unreachable, o.host);
}

Test(durable_redis_faults, another_program_at_its_address_is_reported) {
    const stranger web("HTTP/1.1 400 Bad Request\r\n\r\n"), mute(""), shut(std::nullopt);
    refuses(impatient(web.socket()), std::errc::protocol_error, "no Redis server");
    refuses(impatient(mute.socket()), std::errc::timed_out, "does not answer");
    refuses(impatient(shut.socket()), std::errc::connection_reset, shut.socket());
    const stranger cache("-ERROR\r\n-ERROR\r\n-ERROR\r\n");
    refuses(impatient(cache.socket()), std::errc::not_supported, "ERROR");
    const stranger endless("*2\r\n*1000000\r\n$5\r\nab");
    refuses(impatient(endless.socket()), std::errc::timed_out, "does not answer");
}

Test(durable_redis_faults, a_demoted_primary_is_left_until_promoted_again) {
    const redis_server server, other;
    redis_store s(at(server.socket()));
    server.say({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
    put_until(s, put_result::failed);
    turn_until(s, [&] { return s.last_failure().find("it is a replica") != std::string::npos; });
    server.say({"REPLICAOF", "NO", "ONE"});
    put_until(s, put_result::stored);
}

Test(durable_redis_faults, functions_that_somebody_removed_are_loaded_again) {
    const redis_server server;
    redis_store s(at(server.socket()));
    server.say({"FUNCTION", "FLUSH"});
    CHECK(put(s, {"a", today()}) == put_result::failed);
    CHECK(s.last_failure().find("Function not found") != std::string::npos);
    put_until(s, put_result::stored);
}

Test(durable_redis_faults, a_flushed_server_keeps_its_number_of_shards) {
    const redis_server server;
    redis_options o = at(server.socket());
    o.shards = 7;
    const redis_store first(o);
    redis_store s(at(server.socket()));
    server.say({"FLUSHALL"});
    server.say({"CLIENT", "KILL", "TYPE", "normal"});
    put_until(s, put_result::stored);
    CHECK_EQ(s.traits().shards, 7U);
    server.say({"HSET", "{tvec}:meta", "shards", "9"});
    server.say({"CLIENT", "KILL", "TYPE", "normal"});
    turn_until(s, [&] { return s.last_failure().find("9 shards") != std::string::npos; });
}

Test(durable_redis_faults, a_deleted_set_takes_timers_again) {
    const redis_server server;
    redis_options o = at(server.socket());
    o.look_again = 10ms;
    redis_store s(o);
    const redis_server::words put_one{"FCALL", "tvec_put", "1", "tvec", "a", "1000", ""};
    for (const redis_server::words& harm :
         {redis_server::words{"FLUSHALL"}, {"FLUSHDB"}, {"DEL", "{tvec}:meta"}}) {
        server.say(harm);
        turn_until(s, [&] {
            own(s, 0);  // as its owner does again and again
            const std::string said = server.say(put_one);
            return said == "stored" || said == "there_already";
        });
    }
    CHECK(s.broken_connections().empty());
}

Test(durable_redis_faults, the_owner_of_a_shard_restores_deleted_keys) {
    const redis_server server;
    redis_store s(at(server.socket()));
    own(s, 0);
    put(s, {"waits", today() + 1h});
    put(s, {"begun", today() - 1s});
    put(s, {"dead", today() - 1s});
    claim(s, "begun", 1h);
    const std::uint32_t attempt = claim(s, "dead", 1h).timer.attempt;
    end(s, {{"dead", attempt}, outcome::dead});
    REQUIRE_EQ(count(s).waiting, 2U);
    const std::string lease = server.say({"ZSCORE", "{tvec:0}:begun", "begun"});
    server.say({"DEL", "{tvec:0}:due", "{tvec:0}:begun", "{tvec:0}:dead", "{tvec:0}:own"});
    CHECK_EQ(count(s).waiting, 0U);
    own(s, 0);
    CHECK_EQ(count(s).waiting, 2U);
    CHECK_EQ(count(s).dead, 1U);
    CHECK_EQ(list(s, timer_set::waiting).size(), 2U);
    CHECK_EQ(server.say({"ZSCORE", "{tvec:0}:begun", "begun"}), lease);
    CHECK_EQ(server.say({"FCALL", "tvec_put", "1", "tvec", "new", "1000", ""}), "stored");
}

// The entries are many more than one command looks at.
Test(durable_redis_faults, many_places_are_restored_some_at_a_time) {
    const redis_server server;
    redis_store s(at(server.socket()));
    std::size_t stored = 0;
    for (int i = 0; i < 12'000; ++i)
        s.submit(operations::put{
            {{std::to_string(i), today() + 1h}}, existing::keep, [&](const auto&) { ++stored; }});
    turn_until(s, [&] { return stored == 12'000; });
    server.say({"DEL", "{tvec:0}:due"});
    own(s, 0);
    const std::uint64_t first = count(s).waiting;
    CHECK(first > 0 && first < 12'000);
    for (int i = 0; i < 10 && count(s).waiting < 12'000; ++i) own(s, 0);
    CHECK_EQ(count(s).waiting, 12'000U);
}

Test(durable_redis_faults, a_put_is_unknown_until_replicas_have_it) {
    const redis_server primary, replica;
    redis_options o = at(primary.socket());
    o.wait_replicas = 1;
    o.replica_limit = 100ms;
    redis_store s(o);
    CHECK(put(s, {"a", today() + 1h}) == put_result::unknown);
    CHECK(s.last_failure().find("too few replicas") != std::string::npos);
    replica.say({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
    put_until(s, put_result::stored);
    CHECK_EQ(replica.say({"HEXISTS", "{tvec:0}:timer", "again"}), "1");
    refuses(at(replica.socket()), std::errc::operation_not_permitted, "it is a replica");
}

Test(durable_redis_faults, puts_beyond_max_unsent_bytes_fail) {
    redis_server server;
    redis_options o = at(server.socket());
    o.max_unsent_bytes = 4 * 1024 * 1024;
    redis_store s(o);
    server.stop();
    int stored = 0, failed = 0;
    const auto note = [&](const auto& r) {
        stored += r[0] == put_result::stored;
        failed += r[0] == put_result::failed;
    };
    for (int i = 0; i < 50; ++i) {
        const record large{std::to_string(i), today() + 1h, std::string(largest_body, 'x')};
        s.submit(operations::put{{large}, existing::keep, note});
        s.run();
    }
    CHECK(failed > 0);
    CHECK(s.last_failure().find("wait to be sent") != std::string::npos);
    server.go_on();
    turn_until(s, [&] { return s.unanswered() == 0; });
    CHECK(stored > 0);
    CHECK_EQ(stored + failed, 50);
    CHECK_EQ(count(s).waiting, stored);
}

Test(durable_redis_faults, tls_protects_the_link_and_verifies_the_server) {
    if (!support::is_there("openssl")) cr_skip("there is no openssl to make certificates");
    const support::temporary_folder f;
    REQUIRE(certify(f.name(), "server", "IP:127.0.0.1"));
    REQUIRE(certify(f.name(), "client", "DNS:client"));
    const std::string port = std::to_string(support::free_port());
    const redis_server server({"--appendonly", "yes", "--tls-port", port, "--tls-cert-file",
                               f.name() + "/server.crt", "--tls-key-file", f.name() + "/server.key",
                               "--tls-ca-cert-file", f.name() + "/client.crt"});
    redis_options o;
    o.shards = 1;
    o.port = static_cast<std::uint16_t>(std::stoi(port));
    o.tls = {true, f.name() + "/server.crt", f.name() + "/client.crt", f.name() + "/client.key"};
    {
        redis_store s(o);
        const std::string body(largest_body, 'x');
        CHECK(put(s, {"a", today() + 1h, body}) == put_result::stored);
        CHECK(find(s, "a")->body == body);
    }
    redis_options wrong = o;
    wrong.tls.ca_file = f.name() + "/client.crt";
    refuses(wrong, std::errc::protocol_error, "TLS: the handshake: self-signed certificate");
    wrong = o;
    wrong.host = "localhost";
    refuses(wrong, std::errc::protocol_error, "hostname mismatch");
    wrong = o;
    wrong.tls.ca_file = f.name() + "/none.crt";
    refuses(wrong, std::errc::invalid_argument, "none.crt");
    wrong = o;
    wrong.tls.cert_file.clear();
    refuses(wrong, std::errc::protocol_error, "TLS");
    wrong = o;  // the server reads TLS as the beginning of a command
    wrong.port = static_cast<std::uint16_t>(server.port());
    wrong.silence = 300ms;
    wrong.replica_limit = 100ms;
    refuses(wrong, std::errc::timed_out, "does not answer");
}

Test(durable_redis_faults, an_unexpected_answer_belongs_to_no_unsent_request) {
    const redis_server server;
    liar between(server.socket(), 1);
    redis_store s(at(between.socket()));
    std::optional<put_result> sent, waiting;
    between.add_an_answer();
    const auto on_waiting = [&](const auto& r) { waiting = r[0]; };
    const auto on_sent = [&](const auto& r) {
        sent = r[0];
        s.submit(operations::put{{{"waiting", today() + 1h}}, existing::keep, on_waiting});
    };
    s.submit(operations::put{{{"sent", today() + 1h}}, existing::keep, on_sent});
    turn_until(s, [&] { return waiting.has_value(); });
    CHECK(*sent == put_result::stored);
    CHECK(*waiting == put_result::failed);
    CHECK(s.last_failure().find("what was not asked") != std::string::npos);
    put_until(s, put_result::stored);
    CHECK(!find(s, "waiting").has_value());
}

namespace {

template <class Count> void ask_anything(store& s, std::mt19937& random, Count count_it) {
    const std::string id(1, static_cast<char>('a' + random() % 4));
    switch (random() % 9) {
    case 0:
        return s.submit(
            operations::put{{{id, today()}, {id + id, today()}}, existing::replace, count_it});
    case 1:
        return s.submit(operations::cancel{id, count_it});
    case 2:
        return s.submit(
            operations::end{0, {{{id, 1}}, {{id, 2}, outcome::again, today()}}, count_it});
    case 3:
        return s.submit(operations::find{id, count_it});
    case 4:
        return s.submit(operations::list{timer_set::waiting, {}, 5, {}, count_it});
    case 5:
        return s.submit(operations::own{0, 1s, count_it});
    case 6:
        return s.submit(operations::take{0, 1, {}, today(), 5, count_it});
    case 7:
        return s.submit(operations::claim{0, 1, {}, {id, id + id}, count_it});
    default:
        return s.submit(operations::join{1s, count_it});
    }
}

}  // namespace

// The answers are arbitrary. Only that each question has one matters, and that no memory is
// accessed out of bounds.
Test(durable_redis_faults, malformed_answers_do_no_harm) {
    const redis_server server;
    for (unsigned seed = 1; seed <= 10; ++seed) {
        liar between(server.socket(), seed);
        redis_options o = impatient(between.socket());
        o.silence = 110ms;
        o.slowest = 20ms;
        redis_store s = connected(o);
        between.begin();
        std::mt19937 random(seed);
        int answered = 0;
        for (int i = 0; i < 300; ++i) {
            ask_anything(s, random, [&](const auto&...) { ++answered; });
            if (i % 3 == 0) turn(s, 5ms);
        }
        turn_until(s, [&] { return s.unanswered() == 0; });
        CHECK_EQ(answered, 300);
    }
}
