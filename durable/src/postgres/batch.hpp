/// \file
/// Requests to the store, and the batches in which they are sent.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "client.hpp"
#include "tvec/durable/store.hpp"
#include "values.hpp"

namespace tvec::durable::postgres {

/// A request with an answer in parts: one for each timer, or a single one.
struct request {
    explicit request(std::size_t parts) : left(parts) {}
    virtual ~request() = default;
    /// Reads a part. No row: the function has none for it.
    virtual void read(std::size_t part, row* r) = 0;
    /// Notes that a part will not come.
    virtual void miss(std::size_t part, fate how) = 0;
    virtual void tell() = 0;

    std::size_t left;  ///< parts that have not come
};
using request_ptr = std::shared_ptr<request>;

/// A request whose completion receives a standing and an answer. `Read` reads a part of it.
template <class Answer, class Read> struct request_of final : request {
    request_of(completion<standing, Answer> t, Read r, std::size_t parts, Answer a)
        : request(parts), then(std::move(t)), reader(std::move(r)), all(std::move(a)) {}
    void read(std::size_t part, row* r) override {
        const standing s = reader(all, part, r);
        if (s != standing::done) how = s;
    }
    void miss(std::size_t, fate) override { how = standing::unknown; }
    void tell() override {
        if (then) then(how, how == standing::done ? std::move(all) : Answer{});
    }

    completion<standing, Answer> then;
    Read reader;
    Answer all;
    standing how = standing::done;
};

/// A request with one result. `Read` returns it.
template <class Result, class Read> struct result_of final : request {
    result_of(completion<Result> t, Read r)
        : request(1), then(std::move(t)), reader(std::move(r)) {}
    void read(std::size_t, row* r) override { result = reader(r); }
    void miss(std::size_t, fate how) override { result = detail::none_of<Result>(how); }
    void tell() override {
        if (then) then(result);
    }

    completion<Result> then;
    Read reader;
    Result result{};
};

/// A request with a letter for each put: see `puts` in schema.sql.
struct puts_request final : request {
    puts_request(completion<std::vector<put_result>> t, std::size_t timers)
        : request(timers), then(std::move(t)), all(timers) {}
    void read(std::size_t part, row*) override { miss(part, fate::lost); }
    void note(std::size_t part, char letter) {
        using enum put_result;
        all[part] = letter == 's' ? stored : letter == 'd' ? dead : there_already;
    }
    void miss(std::size_t part, fate how) override { all[part] = detail::none_of<put_result>(how); }
    void tell() override {
        if (then) then(std::move(all));
    }

    completion<std::vector<put_result>> then;
    std::vector<put_result> all;
};

/// The part of a request to which an item of a batch belongs.
struct slot {
    request_ptr whose;
    std::size_t part;
};

/// A call of a function for many items, with an array for each argument that differs.
struct batch {
    std::string_view function;
    std::vector<value> common{};  ///< the first arguments
    std::vector<array> columns;
    std::vector<slot> slots{};
    unsigned tries = 0;

    bool is_empty() const noexcept { return slots.empty(); }
    std::size_t weight() const {
        std::size_t sum = 0;
        for (const array& c : columns) sum += c.weight();
        return sum;
    }
    /// Returns an empty batch of the same kind.
    batch like() const {
        batch b{function, common, {}, {}, tries};
        for (const array& c : columns) b.columns.push_back(c.like());
        return b;
    }
    /// Adds an item of another batch.
    void add_from(const batch& other, std::size_t i) {
        assert(columns.size() == other.columns.size() && "both batches are of one kind");
        for (std::size_t c = 0; c < columns.size(); ++c) columns[c].add_from(other.columns[c], i);
        slots.push_back(other.slots[i]);
    }
    question_for question() const {
        question_for q{function, common, slots.size()};
        for (const array& c : columns) q.arguments.push_back(c.whole());
        return q;
    }
};

}  // namespace tvec::durable::postgres
