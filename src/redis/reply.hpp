/// \file
/// What a Redis server answers.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace tvec::durable::redis {

struct reply_deleter {
    void operator()(redisReply* r) const noexcept { freeReplyObject(r); }
};
using reply_ptr = std::unique_ptr<redisReply, reply_deleter>;

/// The text of a reply: "" if it has none.
inline std::string_view text_of(const redisReply& r) {
    return r.str == nullptr ? std::string_view{} : std::string_view(r.str, r.len);
}

/// The elements of a reply, read one after the other. Whoever it is that answers may answer
/// anything: what is not as it should be is 0 or "", and `is_whole` says that it was so.
class fields {
public:
    explicit fields(const redisReply& r) : all_(r), is_whole_(r.type == REDIS_REPLY_ARRAY) {}

    bool at_end() const noexcept { return !is_whole_ || next_ >= size(); }
    bool is_whole() const noexcept { return is_whole_; }
    std::size_t size() const noexcept { return is_whole_ ? all_.elements : 0; }

    /// An integer, or a text that is one.
    long long number() {
        const redisReply* r = element();
        if (r == nullptr) return 0;
        if (r->type == REDIS_REPLY_INTEGER) return r->integer;
        if (r->type == REDIS_REPLY_STRING) return parsed(text_of(*r));
        is_whole_ = false;
        return 0;
    }
    /// A text; "" for nothing.
    std::string text() {
        const redisReply* r = element();
        if (r == nullptr || r->type == REDIS_REPLY_NIL) return {};
        is_whole_ = is_whole_ && r->type == REDIS_REPLY_STRING;
        return std::string(text_of(*r));
    }
    /// A list within the list.
    fields list() {
        static const redisReply nothing{};
        const redisReply* r = element();
        fields f(r == nullptr ? nothing : *r);
        is_whole_ = is_whole_ && f.is_whole_;
        return f;
    }

private:
    const redisReply* element() {
        if (!at_end()) return all_.element[next_++];
        is_whole_ = false;
        return nullptr;
    }
    // What a sorted set keeps are floating point numbers: "1e+15" is one.
    long long parsed(std::string_view digits) {
        char* end = nullptr;
        const double d = std::strtod(digits.data(), &end);
        const bool is_number = !digits.empty() && end == digits.data() + digits.size();
        if (is_number && d > -1e15 && d < 1e15) return static_cast<long long>(d);
        is_whole_ = false;
        return 0;
    }

    const redisReply& all_;
    std::size_t next_ = 0;
    bool is_whole_;
};

}  // namespace tvec::durable::redis
