/// \file
/// Commands to a Redis server.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tvec::durable::redis {

/// A command in the making: words, each after its length.
class command {
public:
    command(std::initializer_list<std::string_view> words = {}) {
        for (const std::string_view w : words) add(w);
    }

    command& add(std::string_view word) {
        words_ += '$';
        words_ += std::to_string(word.size());
        words_ += "\r\n";
        words_ += word;
        words_ += "\r\n";
        ++count_;
        return *this;
    }
    command& add(std::integral auto number) { return add(std::to_string(number)); }
    /// Adds the words of another one.
    command& add(const command& other) {
        words_ += other.words_;
        count_ += other.count_;
        return *this;
    }
    bool operator==(const command&) const = default;

    /// Returns the length so far, nearly.
    std::size_t size() const noexcept { return words_.size(); }
    /// Returns the bytes to send.
    std::string text() const { return '*' + std::to_string(count_) + "\r\n" + words_; }

private:
    std::string words_;
    std::size_t count_ = 0;
};

}  // namespace tvec::durable::redis
