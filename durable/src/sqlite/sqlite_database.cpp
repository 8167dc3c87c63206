#include "sqlite_database.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "../local/wall_clock.hpp"

namespace tvec::durable {

namespace {

using detail::statement;

// Larger bodies are apart. With this one and the longest id a row fits into a quarter of a page,
// which is the limit for rows without a page of their own.
constexpr std::size_t largest_in_row = 700;

bool goes_apart(const record& r) { return r.body.size() > largest_in_row; }

// Returns the statement for rows of `timer` or `dead`, as timer_of reads them.
std::string rows_of(const std::string& table) {
    return "select id, due, every, attempt, ended, spent, case apart when 0 then body else"
           " (select bytes from body where body.id = " +
           table + ".id) end from " + table;
}
constexpr int body_column = 6;

// Clamps times that another program may have written, so arithmetic cannot overflow.
time_point time_of(std::int64_t ms) {
    return std::clamp(time_point(duration(ms)), earliest_due, latest_due);
}
duration period_of(std::int64_t ms) {
    return std::clamp(duration(ms), duration::zero(), latest_due - earliest_due);
}

stored_timer timer_of(const statement& s) {
    stored_timer t;
    t.id = s.bytes(0);
    t.due = time_of(s.integer(1));
    t.every = period_of(s.integer(2));
    t.attempt = static_cast<std::uint32_t>(s.integer(3));
    t.ended = static_cast<std::uint32_t>(s.integer(4));
    t.spent = static_cast<std::uint32_t>(s.integer(5));
    t.body = s.bytes(body_column);
    return t;
}

}  // namespace

sqlite_database::sqlite_database(const std::string& path, const sqlite_options& options) try
    : claim_ahead_(options.claim_ahead), file_(path, options), begin_(prepared("begin immediate")),
      commit_(prepared("commit")),
      keep_(prepared("insert into timer(id, due, every, apart, body) select ?1, ?2, ?3, ?4, ?5"
                     " where not exists(select 1 from dead where id = ?1)"
                     " on conflict do nothing")),
      // A delivery of the old timer must not end the new one.
      replace_(prepared("insert into timer(id, due, every, apart, body, attempt, ended)"
                        " values(?1, ?2, ?3, ?4, ?5, ?6, ?6) on conflict do update set"
                        " due = excluded.due, every = excluded.every, apart = excluded.apart,"
                        " body = excluded.body, attempt = max(attempt + 1, ?6),"
                        " ended = max(attempt + 1, ?6), spent = 0, counted = 0")),
      put_apart_(prepared("insert or replace into body values(?, ?)")),
      state_(prepared("select due, every, attempt, ended, apart from timer where id = ?")),
      remove_(prepared("delete from timer where id = ?")),
      remove_apart_(prepared("delete from body where id = ?")),
      dead_(prepared("select attempt, apart from dead where id = ?")),
      remove_dead_(prepared("delete from dead where id = ?")),
      // Ends most timers, in one statement.
      end_done_(prepared("delete from timer where id = ? and attempt = ? and ended < attempt"
                         " and every <= 0 and apart = 0")),
      end_again_(prepared("update timer set due = ?2, ended = attempt, spent = 0, counted = 0"
                          " where id = ?1")),
      end_returned_(prepared("update timer set spent = spent - counted, counted = 0, ended ="
                             " case when attempt = ended + 1 then attempt else ended end"
                             " where id = ?")),
      spend_(prepared("update timer set spent = spent + 1 - counted, counted = 1"
                      " where id = ? and attempt = ? and ended < attempt")),
      find_(prepared(rows_of("timer") + " where id = ?")),
      list_(prepared(rows_of("timer") + " where (due, id) > (?, ?) order by due, id limit ?")),
      list_dead_(prepared(rows_of("dead") + " where (due, id) > (?, ?) order by due, id limit ?")),
      count_(prepared("select (select count(*) from timer), (select count(*) from dead),"
                      " (select count(*) from dead where apart <> 0 and not exists"
                      " (select 1 from body where body.id = dead.id))")),
      take_(prepared("select due, id from timer where (due, id) > (?, ?) and due <= ?"
                     " order by due, id limit ?")),
      claim_(prepared("update timer set attempt = attempt + 1, counted = 0 where id = ?")),
      bury_(
          prepared("insert or replace into dead(id, due, body, every, attempt, ended, spent, apart)"
                   " select id, due, body, every, attempt, ended, spent, apart"
                   " from timer where id = ?")),
      revive_(prepared("insert into timer(id, due, body, every, attempt, ended, spent, apart)"
                       " select id, ?2, body, every, attempt, attempt, 0, apart"
                       " from dead where id = ?1")) {
} catch (const detail::sqlite_failure& e) {
    throw std::system_error(e.code(), "sqlite_store: " + path + ": " + e.why);
}

void sqlite_database::roll_back() noexcept {
    if (sqlite3_get_autocommit(file_.get()) == 0)
        sqlite3_exec(file_.get(), "rollback", nullptr, nullptr, nullptr);
}

// --- what anybody may ask -----------------------------------------------------------------------

std::vector<put_result> sqlite_database::put(const std::vector<record>& timers, existing how) {
    std::vector<put_result> results;
    results.reserve(timers.size());
    for (const record& r : timers) results.push_back(put(r, how));
    return results;
}

put_result sqlite_database::put(const record& r, existing how) {
    if (how == existing::keep) return put_new(r);
    put_instead(r);
    return put_result::stored;
}

put_result sqlite_database::put_new(const record& r) {
    const bool is_apart = goes_apart(r);
    const std::string_view in_row = is_apart ? std::string_view() : r.body;
    if (keep_.run(r.id, r.due, r.every, std::int64_t{is_apart}, in_row) == 0)
        return state_of(r.id) ? put_result::there_already : put_result::dead;
    if (is_apart) put_apart_.run(r.id, r.body);
    return put_result::stored;
}

void sqlite_database::put_instead(const record& r) {
    const bool is_apart = goes_apart(r);
    const std::string_view in_row = is_apart ? std::string_view() : r.body;
    const std::optional<std::int64_t> dead = remove_dead(r.id);
    remove_apart_.run(r.id);
    replace_.run(r.id, r.due, r.every, std::int64_t{is_apart}, in_row, dead ? *dead + 1 : 0);
    if (is_apart) put_apart_.run(r.id, r.body);
}

std::optional<sqlite_database::state> sqlite_database::state_of(const std::string& id) {
    if (!state_.first(id)) return std::nullopt;
    const state s{time_of(state_.integer(0)), period_of(state_.integer(1)), state_.integer(2),
                  state_.integer(3), state_.integer(4) != 0};
    state_.reset();
    return s;
}

void sqlite_database::remove(const std::string& id, bool is_apart) {
    remove_.run(id);
    if (is_apart) remove_apart_.run(id);
}

// Removes a dead letter. Returns its last attempt, if there was one.
std::optional<std::int64_t> sqlite_database::remove_dead(const std::string& id) {
    if (!dead_.first(id)) return std::nullopt;
    const std::int64_t attempt = dead_.integer(0);
    const bool is_apart = dead_.integer(1) != 0;
    dead_.reset();
    remove_dead_.run(id);
    if (is_apart) remove_apart_.run(id);
    return attempt;
}

// A file of an older version may hold a waiting timer and a dead letter of that id: both go.
cancel_result sqlite_database::cancel(const std::string& id) {
    const bool was_dead = remove_dead(id).has_value();
    const std::optional<state> s = state_of(id);
    if (!s) return was_dead ? cancel_result::had_begun : cancel_result::unknown_id;
    remove(id, s->is_apart);
    return s->attempt != s->ended ? cancel_result::had_begun : cancel_result::cancelled;
}

std::vector<end_reply> sqlite_database::end(const std::vector<ending>& endings) {
    const time_point now = detail::today();
    std::vector<end_reply> replies;
    replies.reserve(endings.size());
    for (const ending& e : endings) replies.push_back(end(e, now));
    return replies;
}

end_reply sqlite_database::end(const ending& e, time_point now) {
    assert((!e.returned || !e.again) && "a returned claim keeps its deadline");
    const std::string& id = e.token.id;
    const std::int64_t attempt = e.token.attempt;
    if (!e.again && !e.returned && end_done_.run(id, attempt) == 1) return {true, {}};
    const std::optional<state> s = state_of(id);
    if (!s || s->attempt != attempt || s->ended >= attempt) return {};
    if (e.returned) {
        end_returned_.run(id);
        return {true, s->due};
    }
    if (!e.again && s->every == duration::zero()) {
        remove(id, s->is_apart);
        return {true, {}};
    }
    const time_point next = e.again ? *e.again : next_beat(s->due, s->every, now);
    end_again_.run(id, next);
    return {true, next};
}

std::optional<bool> sqlite_database::spend(unsigned, epoch, const token& t) {
    return spend_.run(t.id, std::int64_t{t.attempt}) == 1;
}

std::optional<stored_timer> sqlite_database::find(const std::string& id) {
    if (!find_.first(id)) return std::nullopt;
    std::optional<stored_timer> found(timer_of(find_));
    find_.reset();
    return found;
}

std::vector<stored_timer> sqlite_database::list(timer_set set, const place& after,
                                                std::size_t limit) {
    statement& s = set == timer_set::dead ? list_dead_ : list_;
    std::vector<stored_timer> page;
    const auto most = static_cast<std::int64_t>(std::min<std::size_t>(limit, INT32_MAX));
    for (bool is = s.first(after.due, after.id, most); is; is = s.next())
        page.push_back(timer_of(s));
    return page;
}

totals sqlite_database::count() {
    count_.first();
    const auto n = [this](int column) {
        return static_cast<std::uint64_t>(count_.integer(column));
    };
    const totals all{n(0), n(1) - n(2), n(2)};
    count_.reset();
    return all;
}

// A file of an older version may hold a waiting timer of that id as well: then both stay.
revive_result sqlite_database::revive(const std::string& id, time_point due) {
    if (state_of(id)) {
        if (!dead_.first(id)) return revive_result::unknown_id;
        dead_.reset();
        complaint_ = "a living timer has the id of the dead one: end or cancel one of them";
        return revive_result::failed;
    }
    if (revive_.run(id, due) == 0) return revive_result::unknown_id;
    remove_dead_.run(id);
    return revive_result::revived;
}

// --- what the engine asks -----------------------------------------------------------------------

std::optional<std::vector<place>> sqlite_database::take(unsigned, epoch, const place& after,
                                                        time_point until, std::size_t limit) {
    std::vector<place> got;
    const auto most = static_cast<std::int64_t>(limit);
    for (bool is = take_.first(after.due, after.id, until, most); is; is = take_.next())
        got.push_back({time_of(take_.integer(0)), take_.bytes(1)});
    return got;
}

std::optional<std::vector<claimed>> sqlite_database::claim(unsigned, epoch,
                                                           const claim_terms& terms,
                                                           const std::vector<std::string>& ids) {
    const time_point until = detail::today() + claim_ahead_;
    std::vector<claimed> all;
    all.reserve(ids.size());
    std::size_t bytes = 0;
    for (const std::string& id : ids) {
        all.push_back(bytes < terms.bytes ? claim(terms, until, id)
                                          : claimed{claimed::kind::later, {}});
        bytes += all.back().timer.body.size();
    }
    return all;
}

claimed sqlite_database::claim(const claim_terms& terms, time_point until, const std::string& id) {
    if (!find_.first(id)) return {};
    const bool is_damaged = find_.is_null(body_column);
    claimed c{claimed::kind::granted, timer_of(find_)};
    find_.reset();
    if (c.timer.due > until)
        c.what = claimed::kind::early;
    else if (is_damaged)
        c.what = claimed::kind::damaged;
    else if (terms.attempts != 0 && c.timer.spent >= terms.attempts)
        c.what = claimed::kind::dead;
    if (c.what == claimed::kind::granted)
        c.timer.attempt += static_cast<std::uint32_t>(claim_.run(id));
    else
        c.timer.body.clear();
    if (c.what == claimed::kind::damaged || c.what == claimed::kind::dead) bury(id);
    return c;
}

// Puts a timer among the dead letters. A file of an older version may hold one of that id already.
void sqlite_database::bury(const std::string& id) {
    if (dead_.first(id)) {
        dead_.reset();
        complaint_ = "a timer has died whose id an older dead one had: the older one is gone";
    }
    bury_.run(id);
    [[maybe_unused]] const int removed = remove_.run(id);
    assert(removed == 1 && "only a waiting timer becomes a dead letter");
}

}  // namespace tvec::durable
