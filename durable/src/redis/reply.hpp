/// \file
/// What a Redis server answers.
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

/// The text of a reply: "" if it has none.
inline std::string_view text_of(const redisReply& r) {
    return r.str == nullptr ? std::string_view{} : std::string_view(r.str, r.len);
}

/// Reads the elements of a reply, one after the other. The other side may answer anything: an
/// element of the wrong form is read as 0 or "", and `is_whole` says so.
class fields {
public:
    explicit fields(const redisReply& r) : all_(r), is_whole_(r.type == REDIS_REPLY_ARRAY) {}

    bool at_end() const noexcept { return !is_whole_ || next_ >= size(); }
    bool is_whole() const noexcept { return is_whole_; }
    std::size_t size() const noexcept { return is_whole_ ? all_.elements : 0; }

    /// A whole number from 0 to 10^15, exclusive, or a text that is one: a count, an attempt, or
    /// milliseconds since 1970, from which nothing that is computed with them overflows.
    static constexpr long long limit = 1'000'000'000'000'000;
    long long number() { return number_below(limit); }
    /// A time in microseconds since 1970.
    long long microseconds() { return number_below(1'000'000'000'000'000'000); }
    /// A text, as long as the reply is there.
    std::string_view view() {
        const redisReply* r = element();
        if (r == nullptr) return {};
        is_whole_ = is_whole_ && r->type == REDIS_REPLY_STRING;
        return text_of(*r);
    }
    std::string text() { return std::string(view()); }
    /// To be called by who reads: what was read last is not as it should be.
    void reject() noexcept { is_whole_ = false; }
    /// A list within the list.
    fields list() {
        static const redisReply nothing{};
        const redisReply* r = element();
        fields f(r == nullptr ? nothing : *r);
        is_whole_ = is_whole_ && f.is_whole_;
        return f;
    }

    /// The number that a text is: scores of sorted sets are shown so. -1 if it is none.
    static long long parsed(std::string_view digits) {
        long long n = 0;
        const char* const end = digits.data() + digits.size();
        const auto [rest, error] = std::from_chars(digits.data(), end, n);
        return error == std::errc{} && rest == end ? n : -1;
    }

private:
    const redisReply* element() {
        if (!at_end()) return all_.element[next_++];
        is_whole_ = false;
        return nullptr;
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
    bool is_whole_;
};

}  // namespace tvec::durable::redis
