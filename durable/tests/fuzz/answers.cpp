// Fuzzes the parser of a Redis server's answers: any tree of replies, read as each kind of answer.
// An accepted answer must agree with a second reader, and its values must not overflow. The parser
// must not read outside of the replies.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "../../src/local/server_clock.hpp"
#include "answers.hpp"
#include "server_facts.hpp"
#include "slot_map.hpp"
#include "support/divergence.hpp"

namespace {

using namespace tvec::durable;
using redis::fields;
using support::expect;

// Reads values from the bytes. Missing ones are 0.
class input {
public:
    input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
    bool at_end() const { return left_ == 0; }
    std::uint8_t byte() {
        if (left_ == 0) return 0;
        --left_;
        return *data_++;
    }
    std::string bytes(std::size_t n) {
        std::string s;
        for (n = std::min(n, left_); n > 0; --n) s += static_cast<char>(byte());
        return s;
    }
    long long integer() {
        std::uint64_t n = 0;
        for (int i = byte() % 9; i > 0; --i) n = n << 8 | byte();
        return static_cast<long long>(byte() % 4 == 0 ? ~n : n);
    }

private:
    const std::uint8_t* data_;
    std::size_t left_;
};

// Replies as hiredis builds them.
class tree {
public:
    explicit tree(input& in) : root_(grown(in, 0)) {}
    const redisReply& root() const { return *root_; }

private:
    const redisReply* grown(input& in, int depth) {
        redisReply& r = replies_.emplace_back();
        switch (const int kind = in.byte() % 8; kind) {
        case 0:
        case 1:
            r.type = REDIS_REPLY_INTEGER;
            r.integer = in.integer();
            break;
        case 2:
            say(r, REDIS_REPLY_STRING, std::to_string(in.integer()));
            break;
        case 3:
            r.type = REDIS_REPLY_NIL;
            break;
        case 4:
        case 5:
            say(r, kind == 4 ? REDIS_REPLY_STRING : REDIS_REPLY_ERROR, in.bytes(in.byte() % 128));
            break;
        case 6:
            say(r, REDIS_REPLY_STATUS, "OK");
            break;
        default:
            branch(r, in, depth);
        }
        return &r;
    }
    void say(redisReply& r, int type, std::string words) {
        r.type = type;
        r.str = texts_.emplace_back(std::move(words)).data();
        r.len = texts_.back().size();
    }
    void branch(redisReply& r, input& in, int depth) {
        auto& all = lists_.emplace_back();
        for (std::size_t n = depth < 3 ? in.byte() % 24 : 0; n > 0 && !in.at_end(); --n)
            all.push_back(const_cast<redisReply*>(grown(in, depth + 1)));
        r.type = REDIS_REPLY_ARRAY;
        r.elements = all.size();
        r.element = all.empty() ? nullptr : all.data();
    }

    std::deque<redisReply> replies_;
    std::deque<std::string> texts_;
    std::deque<std::vector<redisReply*>> lists_;
    const redisReply* const root_;  // built from them
};

// A second reader. Returns -1 if the reply is no number.
long double number_in(const redisReply& r) {
    if (r.type == REDIS_REPLY_INTEGER) return static_cast<long double>(r.integer);
    const std::string text(redis::text_of(r));
    const bool is_number = r.type == REDIS_REPLY_STRING && !text.empty() && text.size() < 200 &&
                           text.find_first_not_of("0123456789") == text.npos;
    return is_number ? std::strtold(text.c_str(), nullptr) : -1;
}

// Returns whether three lengths and the texts of these lengths follow the head of 45 bytes.
bool has_texts(const std::string& text) {
    std::uint32_t lengths[3];
    if (text.size() < 45 + sizeof lengths) return false;
    std::memcpy(lengths, text.data() + 45, sizeof lengths);
    std::uint64_t left = text.size() - 45 - sizeof lengths;
    for (const std::uint32_t length : lengths) {
        if (length > left) return false;
        left -= length;
    }
    return true;
}

// A second reader of a claim's answer for one timer: a head of 45 bytes, texts if it is marked, and
// a body, or a digit.
bool is_claimed(std::string text) {
    if (text.size() >= 45) {
        const auto is_time = [&](std::size_t at) {
            std::uint64_t ms = 0;
            std::memcpy(&ms, text.data() + at, sizeof ms);
            return ms < 1'000'000'000'000'000;
        };
        return text.substr(1, 4) != std::string(4, '\0') && is_time(13) && is_time(21) &&
               ((text[0] & 8) == 0 || has_texts(text));
    }
    if (text.empty() || text[0] < '0' || text[0] > '3') return false;
    if (text[0] != '1') return true;
    redisReply due{};
    text.erase(0, 1);
    due.type = REDIS_REPLY_STRING;
    due.str = text.data();
    due.len = text.size();
    return number_in(due) >= 0 && number_in(due) < 1e15L;
}

// Returns whether the item is of this kind: n a number, a an attempt, t a text, i an id, c a
// claim's answer.
bool fits(const redisReply& r, char kind) {
    if (kind == 'i') return fits(r, 't') && r.len >= 1 && r.len <= longest_id;
    if (kind == 't') return r.type == REDIS_REPLY_STRING;
    if (kind == 'c')
        return r.type == REDIS_REPLY_STRING && is_claimed(std::string(redis::text_of(r)));
    const long double n = number_in(r);
    return n >= 0 && n < (kind == 'n' ? 1e15L : 4'294'967'296.0L);
}

// Returns whether an answer consists of these items in order, and nothing else.
bool fits(const redisReply& r, std::string_view kinds) {
    if (r.type != REDIS_REPLY_ARRAY || r.elements % kinds.size() != 0) return false;
    for (std::size_t i = 0; i < r.elements; ++i)
        if (!fits(*r.element[i], kinds[i % kinds.size()])) return false;
    return true;
}

// Does the arithmetic of the engine on its values.
void look_at(time_point due) {
    const auto ahead = due - duration(200) - reading(std::chrono::microseconds(1));
    expect(due >= earliest_due && ahead < std::chrono::hours(24 * 365 * 40'000), "a deadline at ",
           due.time_since_epoch().count());
}
void look_at(const stored_timer& t) {
    look_at(t.due);
    expect(t.every >= duration::zero(), "a period of ", t.every.count());
}
void look_at(const end_reply& e) {
    if (e.next) look_at(*e.next);
}
void look_at(const place& p) { look_at(p.due); }
void look_at(const claimed& c) { look_at(c.timer); }

template <class Parse> void read(const redisReply& r, const char* kinds, Parse parse) {
    fields f(r);
    const auto items = redis::rest(f, parse);
    expect(f.is_whole() == fits(r, kinds), kinds, " is", f.is_whole() ? "" : " not", " whole");
    expect(items.size() <= r.elements + 1, kinds, ": ", items.size(), " of ", r.elements);
    for (const auto& item : items) look_at(item);
}

void read_a_clock(const redisReply& r) {
    fields f(r);
    const long long us = f.microseconds();
    detail::server_clock clock;
    const detail::server_clock::local then{};
    clock.learn(reading(std::chrono::microseconds(us)), then, then + std::chrono::seconds(1));
    expect(clock.at(then + std::chrono::hours(1)) >= reading{}, "a clock at ", us);
    const fields within = f.list();
    expect(!within.is_whole() || f.is_whole(), "a part is whole, and the rest is not");
}

void look_at(const redis::endpoint& e) {
    expect(e.port != 0 && !e.host.empty(), "a node at ", e.text());
}

void read_a_map(const redisReply& r) {
    const auto map = redis::slot_map::parsed(r, "asked");
    if (!map) return;
    for (const redis::endpoint& e : map->nodes()) look_at(e);
    for (unsigned slot = 0; slot < redis::slot_count; slot += 127) {
        const redis::endpoint* const e = map->primary_of(slot);
        const bool is_node = e == nullptr || std::ranges::count(map->nodes(), *e) == 1;
        expect(is_node && (e == nullptr || map->is_primary(*e)), "slot ", slot);
    }
}

void read_text(const std::string& text) {
    using enum redis::redirection::kind;
    const auto away = redis::redirection_of(text, "asked");
    if (away.what == moved || away.what == ask) look_at(away.to);
    if (const auto hint = redis::hint_of(text)) {
        look_at(hint->due);
        expect(!hint->id.empty() && hint->due <= latest_due, "a hint of ", text);
    }
    const bool is_said =
        text.find("role:master") != text.npos && text.find("aof_enabled:1") != text.npos;
    expect(!redis::judge(text, text).refusal.empty() || is_said, "accepted: ", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) try {
    input in(data, size);
    const tree t(in);
    read(t.root(), "innaaatttt", redis::timer_of);
    read(t.root(), "n", redis::end_of);
    read(t.root(), "in", redis::place_of);
    read(t.root(), "c", redis::claim_of);
    read_a_clock(t.root());
    read_a_map(t.root());
    read_text(std::string(reinterpret_cast<const char*>(data), size));
    return 0;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    std::abort();
}
