/// \file
/// Replies of a Redis server.
#pragma once

#include <hiredis/hiredis.h>

#include <charconv>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace tvec::durable::redis {

struct reply_deleter {
    void operator()(redisReply* r) const noexcept { freeReplyObject(r); }
};
using reply_ptr = std::unique_ptr<redisReply, reply_deleter>;

/// Returns the text of a reply, or "".
inline std::string_view text_of(const redisReply& r) {
    return r.str == nullptr ? std::string_view{} : std::string_view(r.str, r.len);
}

/// Reads the elements of a reply, one after another. The other side may answer anything: an element
/// of the wrong form is read as 0 or "", and `is_whole` is false.
class fields {
public:
    explicit fields(const redisReply& r) : all_(r), is_whole_(r.type == REDIS_REPLY_ARRAY) {}
    /// Takes a number for a list of one.
    static fields number_or_list(const redisReply& r) {
        fields f(r);
        f.is_number_ = r.type == REDIS_REPLY_INTEGER;
        f.is_whole_ = f.is_whole_ || f.is_number_;
        return f;
    }

    bool at_end() const noexcept { return !is_whole_ || next_ >= size(); }
    bool is_whole() const noexcept { return is_whole_; }
    std::size_t size() const noexcept { return !is_whole_ ? 0 : is_number_ ? 1 : all_.elements; }

    /// Reads a whole number below 10^15, also from a text: a count, an attempt, or milliseconds
    /// since 1970. Arithmetic with it cannot overflow.
    static constexpr long long limit = 1'000'000'000'000'000;
    long long number() { return number_below(limit); }
    /// Reads a time in microseconds since 1970.
    long long microseconds() { return number_below(1'000'000'000'000'000'000); }
    /// Reads a text, which is valid as long as the reply.
    std::string_view view() {
        const redisReply* r = element();
        if (r == nullptr) return {};
        is_whole_ = is_whole_ && r->type == REDIS_REPLY_STRING;
        return text_of(*r);
    }
    std::string text() { return std::string(view()); }
    /// Reads a text, or nil as "".
    std::string_view view_or_nil() {
        const bool is_nil = !at_end() && all_.element[next_]->type == REDIS_REPLY_NIL;
        return is_nil ? text_of(*element()) : view();
    }
    /// Notes that the last element has the wrong form. For readers.
    void reject() noexcept { is_whole_ = false; }
    /// Reads a list within the list.
    fields list() {
        static const redisReply nothing{};
        const redisReply* r = element();
        fields f(r == nullptr ? nothing : *r);
        is_whole_ = is_whole_ && f.is_whole_;
        return f;
    }

    /// Returns the number in a text, as in scores of sorted sets, or -1.
    static long long parsed(std::string_view digits) {
        long long n = 0;
        const char* const end = digits.data() + digits.size();
        const auto [rest, error] = std::from_chars(digits.data(), end, n);
        return error == std::errc{} && rest == end ? n : -1;
    }

private:
    const redisReply* element() {
        is_whole_ = !at_end();
        if (!is_whole_) return nullptr;
        const std::size_t i = next_++;
        return is_number_ ? &all_ : all_.element[i];
    }
    long long number_below(long long end) {
        const redisReply* r = element();
        if (r == nullptr) return 0;
        const bool is_text = r->type == REDIS_REPLY_STRING;
        const long long n = is_text                          ? parsed(text_of(*r))
                            : r->type == REDIS_REPLY_INTEGER ? r->integer
                                                             : -1;
        is_whole_ = n >= 0 && n < end;
        return is_whole_ ? n : 0;
    }
    const redisReply& all_;
    std::size_t next_ = 0;
    bool is_whole_, is_number_ = false;
};

}  // namespace tvec::durable::redis
