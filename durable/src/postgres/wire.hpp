/// \file
/// The statements for many items, as a `coalescer` sends them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "../link/coalescer.hpp"
#include "client.hpp"
#include "values.hpp"

namespace tvec::durable::postgres {

/// A call of a function for many items, with an array for each argument that differs.
struct statement {
    std::string_view function;
    std::vector<value> common;   ///< the first arguments
    std::vector<array> columns;  ///< the others
    unsigned tries = 0;

    /// Adds an item: an element of each column.
    template <class... Elements> void add(const Elements&... elements) {
        assert(sizeof...(elements) == columns.size() && "an item has an element of each column");
        auto column = columns.begin();
        ((column++)->add(elements), ...);
    }
    std::size_t weight() const;
    question_for question(std::size_t items) const;
};

/// The wire of a `coalescer`. An item is read from its row of the result, or from nullptr if it has
/// none.
class wire {
public:
    using input = row*;
    using batch = detail::batch<statement, row*>;
    using request_ptr = detail::request_ptr<row*>;
    using words = statement;
    using head = std::vector<value>;  // the first arguments
    /// The first of all_prepared. A `beat` has parts that are numbers of shards, or `processes`.
    enum class kind { puts, cancels, touches, ends, spends, claims, takes, beat };
    static constexpr std::size_t kinds = 8;
    static constexpr std::size_t processes = static_cast<std::size_t>(-2);
    static constexpr std::size_t together = 1'000, bytes_together = 262'144;
    /// A claim of a locked timer is tried again after this.
    static constexpr duration pause_of_locked{20};

    explicit wire(client& c) : client_(c) {}

    statement begin(std::size_t group, kind k, const head& common) const;
    static std::size_t weight(const statement& s) { return s.weight(); }
    void send(std::size_t /*group*/, kind, const batch& b) { ask(b); }
    void touch(std::size_t bytes) { client_.touch(bytes); }
    void answer(const request_ptr& q);
    /// Calls a function for one request, which reads all rows of the result.
    void ask_one(std::string_view function, std::vector<value> arguments, request_ptr q);

private:
    void ask(batch b);
    void on_refused(const batch& b, const PGresult* error);
    void on_rows(const batch& b, const PGresult& r);
    void on_letters(const batch& b, const PGresult& r);
    void on_beat(const batch& b, const PGresult& r);
    void read(const detail::slot<row*>& s, row* r);

    client& client_;
};

}  // namespace tvec::durable::postgres
