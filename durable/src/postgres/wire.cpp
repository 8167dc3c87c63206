#include "wire.hpp"

#include <cstdint>
#include <map>
#include <utility>

namespace tvec::durable::postgres {

namespace {

// How often a statement for one item is sent that meets a deadlock or a serialization failure.
constexpr unsigned max_tries = 10;

// The state in answers of `ends` and `spends`: see schema.sql.
constexpr std::int64_t is_locked = 2;

// Returns a batch of some items of another one.
wire::batch some_of(const wire::batch& b, const std::vector<std::size_t>& items) {
    wire::batch some{{b.words.function, b.words.common, {}, b.words.tries}};
    for (const array& c : b.words.columns) some.words.columns.push_back(c.some(items));
    for (const std::size_t i : items) some.slots.push_back(b.slots[i]);
    return some;
}

}  // namespace

std::size_t statement::weight() const {
    std::size_t sum = 0;
    for (const array& c : columns) sum += c.weight();
    return sum;
}

question_for statement::question(std::size_t items) const {
    question_for q{function, common, items};
    for (const array& c : columns) q.arguments.push_back(c.whole());
    return q;
}

statement wire::begin(std::size_t, kind k, const head& common) const {
    const prepared& p = all_prepared[static_cast<std::size_t>(k)];
    statement s{p.function, common, {}};
    if (k == kind::claims)
        s.common.push_back(
            big(detail::last_time_of_claim(client_.now(), client_.options().silence)));
    for (const char* letter = p.types; *letter != '\0'; ++letter)
        if (is_array(*letter)) s.columns.emplace_back(type_of(*letter));
    return s;
}

void wire::answer(const request_ptr& q) {
    client_.refuse([q](fate, const PGresult*) { q->end(); });
}

void wire::ask_one(std::string_view function, std::vector<value> arguments, request_ptr q) {
    client_.ask({function, std::move(arguments)},
                [this, s = detail::slot<row*>{std::move(q)}](fate how, const PGresult* result) {
                    if (how != fate::replied) return s.miss(how);
                    if (PQntuples(result) == 0) s.whose->read(0, nullptr);
                    for (int i = 0; i < PQntuples(result); ++i) {
                        row r(*result, i);
                        read(s, &r);
                    }
                    s.whose->end_part();
                });
}

void wire::ask(batch b) {
    question_for q = b.words.question(b.slots.size());
    client_.ask(std::move(q), [this, b = std::move(b)](fate how, const PGresult* r) {
        if (how == fate::refused) return on_refused(b, r);
        if (how != fate::replied)
            for (const detail::slot<row*>& s : b.slots) s.miss(how);
        else if (b.words.function == "puts")
            on_letters(b, *r);
        else if (b.words.function == "beat")
            on_beat(b, *r);
        else
            on_rows(b, *r);
    });
}

// A deadlock or a serialization failure passes, and the more items a statement has the more
// statements it meets: each half is asked for alone. A lock that is held belongs to one of the
// timers, and so is each of them.
void wire::on_refused(const batch& b, const PGresult* error) {
    const char* const field =
        error == nullptr ? nullptr : PQresultErrorField(error, PG_DIAG_SQLSTATE);
    const std::string_view state = field == nullptr ? "" : field;
    const bool passes = state == "40001" || state == "40P01", waits = state == "55P03";
    const bool has_items = b.words.function != "beat";  // a heartbeat comes again
    if (has_items && passes && b.slots.size() > 1) {
        std::vector<std::size_t> halves[2];
        for (std::size_t i = 0; i < b.slots.size(); ++i) halves[i % 2].push_back(i);
        for (const auto& half : halves) ask(some_of(b, half));
        return;
    }
    if (has_items && passes && b.words.tries < max_tries) {
        batch again = b;
        ++again.words.tries;
        return ask(std::move(again));
    }
    if (waits) client_.note("a transaction of another program has locked the timer");
    for (std::size_t i = 0; i < b.slots.size(); ++i)
        has_items&& waits&& b.slots.size() > 1 ? ask(some_of(b, {i}))
                                               : b.slots[i].miss(fate::refused);
}

void wire::read(const detail::slot<row*>& s, row* r) {
    s.whose->read(s.part, r);
    if (r == nullptr || r->is_whole()) return;
    client_.protest();
    s.whose->miss(s.part, fate::lost);
}

// Each row begins with the number of its item. Row 0 has the time.
void wire::on_rows(const batch& b, const PGresult& result) {
    const std::string_view f = b.words.function;
    std::vector<bool> is_known(b.slots.size());
    std::vector<std::size_t> locked;
    for (int i = 0; i < PQntuples(&result); ++i) {
        row r(result, i);
        const auto n = static_cast<std::size_t>(r.integer());
        if (n == 0) {  // the time, as a deadline
            if (f == "claims") r.integer();
            client_.learn(r.integer());
        }
        if (n == 0 || n > b.slots.size() || (is_known[n - 1] && f != "takes")) continue;
        is_known[n - 1] = true;
        row state = r;
        if ((f == "ends" || f == "spends") && state.integer() == is_locked)
            locked.push_back(n - 1);
        else
            read(b.slots[n - 1], &r);
    }
    if (!locked.empty()) client_.ask_later([this, some = some_of(b, locked)] { ask(some); });
    std::vector<bool> waits(b.slots.size());
    for (const std::size_t i : locked) waits[i] = true;
    for (std::size_t i = 0; i < b.slots.size(); ++i) {
        if (waits[i]) continue;
        if (!is_known[i]) read(b.slots[i], nullptr);
        b.slots[i].whose->end_part();
    }
}

// `puts` answers a letter for each timer.
void wire::on_letters(const batch& b, const PGresult& result) {
    const bool is_whole =
        PQntuples(&result) == 1 && PQgetlength(&result, 0, 0) == static_cast<int>(b.slots.size());
    if (!is_whole) client_.protest();
    for (std::size_t i = 0; i < b.slots.size(); ++i) {
        if (!is_whole) {
            b.slots[i].miss(fate::lost);
            continue;
        }
        row r(result, 0, i);
        read(b.slots[i], &r);
        b.slots[i].whose->end_part();
    }
}

// The rows are pairs: see `beat` in schema.sql.
void wire::on_beat(const batch& b, const PGresult& result) {
    std::map<std::int64_t, row> values;
    for (int i = 0; i < PQntuples(&result); ++i) {
        row r(result, i);
        const std::int64_t what = r.integer();
        values.emplace(what, r);
    }
    const auto value_of = [&values](std::int64_t what) {
        const auto found = values.find(what);
        return found == values.end() ? nullptr : &found->second;
    };
    const auto is_set = [&](std::int64_t what) {
        row* const r = value_of(what);
        return r != nullptr && r->integer() != 0;
    };
    if (row* const us = value_of(-1)) client_.learn(us->integer());
    for (const detail::slot<row*>& s : b.slots) {
        read(s, value_of(static_cast<std::int64_t>(s.part)));
        s.whose->end_part();
    }
    client_.notice_queue(is_set(-5));
    client_.judge(!is_set(-3), !is_set(-4), is_set(-6));
}

}  // namespace tvec::durable::postgres
