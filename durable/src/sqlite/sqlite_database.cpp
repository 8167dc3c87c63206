#include "sqlite_database.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "../local/wall_clock.hpp"

namespace tvec::durable::detail {

namespace {

// Larger bodies are apart. With this one and the longest id a row fits into a quarter of a page,
// which is the limit for rows without a page of their own.
constexpr std::size_t largest_in_row = 700;

bool goes_apart(const record& r) { return r.body.size() + r.plan.size() > largest_in_row; }

// Returns the statement for rows of `timer` or `dead`, as timer_of reads them.
std::string rows_of(const std::string& table) {
    const std::string verdict = table == "timer" ? "verdict" : "null";
    return "select id, due, every, attempt, ended, spent, case apart when 0 then body else"
           " (select bytes from body where body.id = " +
           table + ".id) end, plan, history, " + verdict + " from " + table;
}
constexpr int body_column = 6;

// The first reads the index of deadlines, the second all ids with the prefix.
const std::string in_order = " where (due, id) > (?, ?) order by due, id limit ?";
const std::string in_order_with_prefix =
    " where (+due, +id) > (?, ?) and id >= ?4 and id < ?5 order by +due, +id limit ?3";

// Returns the lower bound of the ids that come after all those with the prefix.
std::string after_all_with(std::string prefix) {
    while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
    if (prefix.empty()) return std::string(longest_id + 1, '\xff');
    ++prefix.back();
    return prefix;
}

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
    t.plan = s.bytes(body_column + 1);
    t.history = s.bytes(body_column + 2);
    t.verdict = s.bytes(body_column + 3);
    return t;
}

// Timers in the file. Each operation is statements within a transaction.
class sqlite_database final : public database {
public:
    sqlite_database(sqlite3* db, duration claim_ahead, std::function<void(std::string)> complain);

    std::vector<put_result> perform(const operations::put& o) override;
    cancel_result perform(const operations::cancel& o) override;
    std::vector<end_reply> perform(const operations::end& o) override;
    std::optional<stored_timer> perform(const operations::find& o) override;
    std::vector<stored_timer> perform(const operations::list& o) override;
    std::optional<overdue> perform(const operations::oldest& o) override;
    totals perform(const operations::count& o) override;
    touch_result perform(const operations::touch& o) override;
    bool perform(const operations::extend& o) override;
    revive_result perform(const operations::revive& o) override;
    bool perform(const operations::bury& o) override;
    std::size_t perform(const operations::join&) override { return 1; }
    epoch perform(const operations::own&) override { return 1; }
    standing perform(const operations::release&) override { return standing::done; }
    std::optional<std::vector<place>> perform(const operations::take& o) override;
    std::optional<std::vector<claimed>> perform(const operations::claim& o) override;
    std::optional<bool> perform(const operations::spend& o) override;

private:
    // A timer without its id and body.
    struct state {
        time_point due;
        duration every;
        std::int64_t attempt, ended;
        bool is_apart, has_plan;
    };

    put_result put(const record& r, existing how);
    put_result put_new(const record& r);
    void put_instead(const record& r);
    std::optional<state> state_of(const std::string& id);
    void remove(const std::string& id, bool is_apart);
    std::optional<std::int64_t> remove_dead(const std::string& id);
    end_reply end(const ending& e, time_point now);
    end_reply end_for_good(const ending& e, const state& s);
    end_reply wait_again(const ending& e, const state& s, time_point now);
    claimed claim(const claim_terms& terms, time_point until, const std::string& id);
    void make_dead(const std::string& id);
    statement prepared(const std::string& sql) { return {db_, sql.c_str()}; }

    sqlite3* db_;
    duration claim_ahead_;
    std::function<void(std::string)> complain_;
    statement keep_, replace_, put_apart_, state_, remove_, remove_apart_, dead_, remove_dead_,
        end_done_, end_again_, note_, end_returned_, spend_, is_current_, find_, list_,
        list_prefix_, list_dead_, oldest_, count_, take_, claim_, make_dead_, touch_, revive_,
        bury_;
};

sqlite_database::sqlite_database(sqlite3* db, duration claim_ahead,
                                 std::function<void(std::string)> complain)
    : db_(db), claim_ahead_(claim_ahead), complain_(std::move(complain)),
      keep_(prepared("insert into timer(id, due, every, apart, body, plan)"
                     " select ?1, ?2, ?3, ?4, ?5, ?6"
                     " where not exists(select 1 from dead where id = ?1)"
                     " on conflict do nothing")),
      // A delivery of the old timer must not end the new one.
      replace_(
          prepared("insert into timer(id, due, every, apart, body, plan, attempt, ended)"
                   " values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7) on conflict do update set"
                   " due = excluded.due, every = excluded.every, apart = excluded.apart,"
                   " body = excluded.body, plan = excluded.plan, history = null, verdict = null,"
                   " attempt = max(attempt + 1, ?7), ended = max(attempt + 1, ?7), spent = 0,"
                   " counted = 0")),
      put_apart_(prepared("insert or replace into body values(?, ?)")),
      state_(prepared("select due, every, attempt, ended, apart, plan is not null from timer"
                      " where id = ?")),
      remove_(prepared("delete from timer where id = ?")),
      remove_apart_(prepared("delete from body where id = ?")),
      dead_(prepared("select attempt, apart from dead where id = ?")),
      remove_dead_(prepared("delete from dead where id = ?")),
      // Ends most timers, in one statement.
      end_done_(prepared("delete from timer where id = ? and attempt = ? and ended < attempt"
                         " and every <= 0 and apart = 0 and plan is null")),
      end_again_(prepared("update timer set due = ?2, ended = attempt, spent = 0, counted = 0,"
                          " verdict = ?3 where id = ?1")),
      note_(prepared("update timer set history = ?2 where id = ?1")),
      end_returned_(prepared("update timer set spent = spent - counted, counted = 0, ended ="
                             " case when attempt = ended + 1 then attempt else ended end"
                             " where id = ?")),
      spend_(prepared("update timer set spent = spent + 1 - counted, counted = 1"
                      " where id = ? and attempt = ? and ended < attempt")),
      is_current_(prepared("select 1 from timer where id = ? and attempt = ? and ended < attempt")),
      find_(prepared(rows_of("timer") + " where id = ?")),
      list_(prepared(rows_of("timer") + in_order)),
      list_prefix_(prepared(rows_of("timer") + in_order_with_prefix)),
      list_dead_(prepared(rows_of("dead") + in_order_with_prefix)),
      oldest_(prepared("select id, due, id >= ?2 and id < ?3, count(*) over () from"
                       " (select id, due from timer where attempt = ended and due <= ?1"
                       " order by due, id limit ?4) order by id >= ?2 and id < ?3 desc, due, id")),
      count_(prepared("select (select count(*) from timer), (select count(*) from dead),"
                      " (select count(*) from dead where apart <> 0 and not exists"
                      " (select 1 from body where body.id = dead.id))")),
      take_(prepared("select due, id from timer where (due, id) > (?, ?) and due <= ?"
                     " order by due, id limit ?")),
      claim_(prepared("update timer set attempt = attempt + 1, counted = 0 where id = ?")),
      make_dead_(
          prepared("insert or replace into dead(id, due, body, every, attempt, ended, spent, apart,"
                   " plan, history) select id, due, body, every, attempt, ended, spent, apart,"
                   " plan, history from timer where id = ?")),
      touch_(prepared("update timer set due = ?2, attempt = attempt + 1, ended = attempt + 1,"
                      " spent = 0, counted = 0, verdict = null where id = ?1")),
      revive_(prepared("insert into timer(id, due, body, every, attempt, ended, spent, apart, plan)"
                       " select id, ?2, body, every, attempt, attempt, 0, apart, plan"
                       " from dead where id = ?1")),
      bury_(prepared("insert into dead(id, due, body, every, attempt, ended, spent, apart, plan,"
                     " history) select ?1, ?2, ?3, 0, ?4, ?4, 0, ?5, ?6, ?7"
                     " where not exists(select 1 from timer where id = ?1)"
                     " on conflict do nothing")) {}

// --- what anybody may ask -----------------------------------------------------------------------

std::vector<put_result> sqlite_database::perform(const operations::put& o) {
    std::vector<put_result> results;
    results.reserve(o.timers.size());
    for (const record& r : o.timers) results.push_back(put(r, o.how));
    return results;
}

put_result sqlite_database::put(const record& r, existing how) {
    if (how == existing::keep) return put_new(r);
    if (how != existing::replace) {
        const std::optional<state> old = state_of(r.id);
        if (!old || !replaces(how, r.due, old->due)) return put_new(r);
    }
    put_instead(r);
    return put_result::stored;
}

put_result sqlite_database::put_new(const record& r) {
    const bool is_apart = goes_apart(r);
    const std::string_view in_row = is_apart ? std::string_view() : r.body;
    if (keep_.run(r.id, r.due, r.every, std::int64_t{is_apart}, in_row, bytes_or_null{r.plan}) == 0)
        return state_of(r.id) ? put_result::there_already : put_result::dead;
    if (is_apart) put_apart_.run(r.id, r.body);
    return put_result::stored;
}

void sqlite_database::put_instead(const record& r) {
    const bool is_apart = goes_apart(r);
    const std::string_view in_row = is_apart ? std::string_view() : r.body;
    const std::optional<std::int64_t> dead = remove_dead(r.id);
    remove_apart_.run(r.id);
    replace_.run(r.id, r.due, r.every, std::int64_t{is_apart}, in_row, bytes_or_null{r.plan},
                 dead ? *dead + 1 : 0);
    if (is_apart) put_apart_.run(r.id, r.body);
}

std::optional<sqlite_database::state> sqlite_database::state_of(const std::string& id) {
    if (!state_.first(id)) return std::nullopt;
    const state s{time_of(state_.integer(0)), period_of(state_.integer(1)), state_.integer(2),
                  state_.integer(3),          state_.integer(4) != 0,       state_.integer(5) != 0};
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
cancel_result sqlite_database::perform(const operations::cancel& o) {
    const bool was_dead = remove_dead(o.id).has_value();
    const std::optional<state> s = state_of(o.id);
    if (!s) return was_dead ? cancel_result::had_begun : cancel_result::unknown_id;
    remove(o.id, s->is_apart);
    return s->attempt != s->ended ? cancel_result::had_begun : cancel_result::cancelled;
}

std::vector<end_reply> sqlite_database::perform(const operations::end& o) {
    const time_point now = today();
    std::vector<end_reply> replies;
    replies.reserve(o.endings.size());
    for (const ending& e : o.endings) replies.push_back(end(e, now));
    return replies;
}

end_reply sqlite_database::end(const ending& e, time_point now) {
    const std::string& id = e.token.id;
    const std::int64_t attempt = e.token.attempt;
    if (e.how == outcome::done && end_done_.run(id, attempt) == 1) return {true, {}};
    const std::optional<state> s = state_of(id);
    if (!s || s->attempt != attempt || s->ended >= attempt) return {};
    if (e.how == outcome::returned) {
        end_returned_.run(id);
        return {true, s->due};
    }
    if (e.history) note_.run(id, bytes_or_null{*e.history});
    const bool is_last = e.how == outcome::done && !s->has_plan && s->every == duration::zero();
    if (is_last || e.how == outcome::removed || e.how == outcome::dead) return end_for_good(e, *s);
    return wait_again(e, *s, now);
}

end_reply sqlite_database::end_for_good(const ending& e, const state& s) {
    if (e.how == outcome::dead) {
        end_again_.run(e.token.id, s.due, bytes_or_null{});
        make_dead(e.token.id);
    } else {
        remove(e.token.id, s.is_apart);
    }
    return {true, {}};
}

end_reply sqlite_database::wait_again(const ending& e, const state& s, time_point now) {
    time_point next = s.due;
    std::string verdict;
    if (e.how == outcome::again)
        next = e.due;
    else if (e.how == outcome::failed)
        verdict = "failed " + e.reason;
    else if (s.has_plan)
        verdict = "done";
    else
        next = next_beat(s.due, s.every, now);
    end_again_.run(e.token.id, next, bytes_or_null{verdict});
    return {true, next};
}

touch_result sqlite_database::perform(const operations::touch& o) {
    return touch_.run(o.id, o.due) == 1 ? touch_result::touched : touch_result::unknown_id;
}

// The file knows no leases: the engine does, which is the only one that claims.
bool sqlite_database::perform(const operations::extend& o) {
    const bool is_current = is_current_.first(o.token.id, std::int64_t{o.token.attempt});
    is_current_.reset();
    return is_current;
}

std::optional<bool> sqlite_database::perform(const operations::spend& o) {
    return spend_.run(o.token.id, std::int64_t{o.token.attempt}) == 1;
}

std::optional<stored_timer> sqlite_database::perform(const operations::find& o) {
    if (!find_.first(o.id)) return std::nullopt;
    std::optional<stored_timer> found(timer_of(find_));
    find_.reset();
    return found;
}

std::vector<stored_timer> sqlite_database::perform(const operations::list& o) {
    std::vector<stored_timer> page;
    const auto most = static_cast<std::int64_t>(std::min<std::size_t>(o.limit, INT32_MAX));
    if (o.set == timer_set::waiting && o.prefix.empty()) {
        for (bool is = list_.first(o.after.due, o.after.id, most); is; is = list_.next())
            page.push_back(timer_of(list_));
        return page;
    }
    statement& s = o.set == timer_set::dead ? list_dead_ : list_prefix_;
    const std::string end = after_all_with(o.prefix);
    for (bool is = s.first(o.after.due, o.after.id, most, o.prefix, end); is; is = s.next())
        page.push_back(timer_of(s));
    return page;
}

// An open attempt is under way: the only process that uses the file claims the timer anew when its
// lease ends.
std::optional<overdue> sqlite_database::perform(const operations::oldest& o) {
    constexpr auto most = static_cast<std::int64_t>(overdue_looked_at);
    std::optional<overdue> found;
    if (oldest_.first(today(), o.prefix, after_all_with(o.prefix), most) &&
        (oldest_.integer(2) != 0 || oldest_.integer(3) == most)) {
        const time_point due = time_of(oldest_.integer(1));
        found = {oldest_.bytes(0), due, due};
    }
    oldest_.reset();
    return found;
}

totals sqlite_database::perform(const operations::count&) {
    count_.first();
    const auto n = [this](int column) {
        return static_cast<std::uint64_t>(count_.integer(column));
    };
    const totals all{n(0), n(1) - n(2), n(2)};
    count_.reset();
    return all;
}

// A file of an older version may hold a waiting timer of that id as well: then both stay.
revive_result sqlite_database::perform(const operations::revive& o) {
    if (state_of(o.id)) {
        if (!dead_.first(o.id)) return revive_result::unknown_id;
        dead_.reset();
        complain_("a living timer has the id of the dead one: end or cancel one of them");
        return revive_result::failed;
    }
    if (revive_.run(o.id, o.due) == 0) return revive_result::unknown_id;
    remove_dead_.run(o.id);
    return revive_result::revived;
}

bool sqlite_database::perform(const operations::bury& o) {
    const stored_timer& t = o.letter;
    const bool is_apart = goes_apart(t);
    const std::string_view in_row = is_apart ? std::string_view() : t.body;
    const bool is_new =
        bury_.run(t.id, t.due, in_row, std::int64_t{t.attempt}, std::int64_t{is_apart},
                  bytes_or_null{t.plan}, bytes_or_null{t.history}) == 1;
    if (is_new && is_apart) put_apart_.run(t.id, t.body);
    return is_new;
}

// --- what the engine asks -----------------------------------------------------------------------

std::optional<std::vector<place>> sqlite_database::perform(const operations::take& o) {
    std::vector<place> got;
    const auto most = static_cast<std::int64_t>(o.limit);
    for (bool is = take_.first(o.after.due, o.after.id, o.until, most); is; is = take_.next())
        got.push_back({time_of(take_.integer(0)), take_.bytes(1)});
    return got;
}

std::optional<std::vector<claimed>> sqlite_database::perform(const operations::claim& o) {
    const time_point until = today() + claim_ahead_;
    std::vector<claimed> all;
    all.reserve(o.ids.size());
    std::size_t bytes = 0;
    for (const std::string& id : o.ids) {
        all.push_back(bytes < o.terms.bytes ? claim(o.terms, until, id)
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
    else if (c.timer.every == duration::zero() && c.timer.plan.empty() && terms.attempts != 0 &&
             c.timer.spent >= terms.attempts)
        c.what = claimed::kind::dead;
    if (c.what == claimed::kind::granted)
        c.timer.attempt += static_cast<std::uint32_t>(claim_.run(id));
    else
        c.timer.body.clear();
    if (c.what == claimed::kind::damaged || c.what == claimed::kind::dead) make_dead(id);
    return c;
}

// Puts a timer among the dead letters. A file of an older version may hold one of that id already.
void sqlite_database::make_dead(const std::string& id) {
    if (dead_.first(id)) {
        dead_.reset();
        complain_("a timer has died whose id an older dead one had: the older one is gone");
    }
    make_dead_.run(id);
    [[maybe_unused]] const int removed = remove_.run(id);
    assert(removed == 1 && "only a waiting timer becomes a dead letter");
}

}  // namespace

std::unique_ptr<database> database_in(sqlite3* db, duration claim_ahead,
                                      std::function<void(std::string)> complain) {
    return std::make_unique<sqlite_database>(db, claim_ahead, std::move(complain));
}

}  // namespace tvec::durable::detail
