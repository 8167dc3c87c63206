#include "sqlite_database.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "../local/timer_state.hpp"
#include "../local/wall_clock.hpp"

namespace tvec::durable::detail {

namespace {

// Larger bodies are apart. With this one and the longest id a row fits into a quarter of a page,
// which is the limit for rows without a page of their own.
constexpr std::size_t largest_in_row = 700;

bool goes_apart(const record& r) { return r.body.size() + r.plan.size() > largest_in_row; }

// Another program may have written a wrong id, or an attempt that no other one can follow.
const std::string has_wrong_id =
    "(length(cast(id as blob)) not between 1 and " + std::to_string(longest_id) + ")";
const std::string is_wrong = "(" + has_wrong_id +
                             " or ended not between 0 and attempt"
                             " or attempt > 4294967294 or spent not between 0 and 4294967294)";

// Returns the statement for rows of `timer` or `dead`, as timer_of reads them.
std::string rows_of(const std::string& table, const std::string& body) {
    const std::string only_living = table == "timer" ? "verdict, counted" : "null, 0";
    return "select id, due, every, attempt, ended, spent, " + body + ", plan, history, " +
           only_living + ", apart from " + table;
}
std::string rows_of(const std::string& table) {
    return rows_of(table, "case when " + is_wrong +
                              " then null when apart = 0 then body else"
                              " (select bytes from body where body.id = " +
                              table + ".id) end");
}
constexpr int body_column = 6, apart_column = 11;

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

// The file keeps no leases, so that of an open attempt is over or without end.
timer_state timer_of(const statement& s) {
    timer_state t;
    t.id = s.bytes(0);
    t.due = t.visible = time_of(s.integer(1));
    t.lease = latest_due - earliest_due;
    t.every = period_of(s.integer(2));
    t.attempt = static_cast<std::uint32_t>(s.integer(3));
    t.ended = static_cast<std::uint32_t>(s.integer(4));
    t.spent = static_cast<std::uint32_t>(s.integer(5));
    t.body = s.bytes(body_column);
    t.plan = s.bytes(body_column + 1);
    t.history = s.bytes(body_column + 2);
    t.verdict = s.bytes(body_column + 3);
    t.is_counted = s.integer(body_column + 4) != 0;
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
    // A timer without its body.
    struct row {
        timer_state timer;
        bool is_apart = false;
    };

    put_result put(const record& r, existing how, std::uint32_t gone);
    put_result put_new(const record& r, std::uint32_t gone);
    void put_instead(const record& r, std::uint32_t gone);
    std::uint32_t gone();
    void note_gone(std::uint32_t attempt);
    std::optional<row> row_of(const std::string& id);
    std::optional<row> current(const token& t);
    void write(const timer_state& t);
    void write_attempts(const timer_state& t);
    void remove(const std::string& id, bool is_apart);
    std::optional<std::uint32_t> remove_dead(const std::string& id);
    end_reply end(const ending& e, time_point now, std::uint32_t& gone);
    claimed claim(const claim_terms& terms, time_point now, const std::string& id);
    void make_dead(const std::string& id);
    statement prepared(const std::string& sql) { return {db_, sql.c_str()}; }

    sqlite3* db_;
    duration claim_ahead_;
    std::function<void(std::string)> complain_;
    statement keep_, replace_, put_apart_, row_, write_, write_attempts_, remove_, remove_apart_,
        dead_, remove_dead_, end_done_, find_, list_, list_prefix_, list_dead_, oldest_, count_,
        take_, make_dead_, make_living_, bury_, gone_, note_gone_;
};

sqlite_database::sqlite_database(sqlite3* db, duration claim_ahead,
                                 std::function<void(std::string)> complain)
    : db_(db), claim_ahead_(claim_ahead), complain_(std::move(complain)),
      keep_(prepared("insert into timer(id, due, every, apart, body, plan, attempt, ended)"
                     " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7"
                     " where not exists(select 1 from dead where id = ?1)"
                     " on conflict do nothing")),
      replace_(prepared("insert or replace into timer(id, due, every, apart, body, plan, attempt,"
                        " ended) values(?, ?, ?, ?, ?, ?, ?, ?)")),
      put_apart_(prepared("insert or replace into body values(?, ?)")),
      row_(prepared(rows_of("timer", "null") + " where id = ?")),
      write_(prepared("update timer set attempt = ?2, ended = ?3, spent = ?4, counted = ?5,"
                      " due = ?6, history = ?7, verdict = ?8 where id = ?1")),
      // Writes no index.
      write_attempts_(prepared("update timer set attempt = ?2, ended = ?3, spent = ?4,"
                               " counted = ?5 where id = ?1")),
      remove_(prepared("delete from timer where id = ?")),
      remove_apart_(prepared("delete from body where id = ?")),
      dead_(prepared("select attempt, apart from dead where id = ?")),
      remove_dead_(prepared("delete from dead where id = ?")),
      // Ends most timers as timer_state::end does, in one statement.
      end_done_(prepared("delete from timer where id = ? and attempt = ? and ended < attempt"
                         " and every <= 0 and apart = 0 and plan is null")),
      find_(prepared(rows_of("timer") + " where id = ?")),
      list_(prepared(rows_of("timer") + in_order)),
      list_prefix_(prepared(rows_of("timer") + in_order_with_prefix)),
      list_dead_(prepared(rows_of("dead") + in_order_with_prefix)),
      oldest_(prepared("select id, due, id >= ?2 and id < ?3, count(*) over (), open from"
                       " (select id, due, attempt - ended as open from timer"
                       " where (attempt = ended or attempt - ended > ?5) and due <= ?1 and not " +
                       has_wrong_id +
                       " order by due, id limit ?4) order by id >= ?2 and id < ?3 desc, due, id")),
      // Wrong ids stay where they are, because no statement of this store finds them.
      count_(prepared("select (select count(*) from timer where not " + has_wrong_id +
                      "), (select count(*) from dead),"
                      " (select count(*) from dead where apart <> 0 and not exists"
                      " (select 1 from body where body.id = dead.id) or " +
                      is_wrong + "), (select count(*) from timer where " + has_wrong_id + ")")),
      take_(prepared("select due, id from timer where (due, id) > (?, ?) and due <= ? and not " +
                     has_wrong_id + " order by due, id limit ?")),
      make_dead_(
          prepared("insert or replace into dead(id, due, body, every, attempt, ended, spent, apart,"
                   " plan, history) select id, due, body, every, attempt, ended, spent, apart,"
                   " plan, history from timer where id = ?")),
      make_living_(prepared("insert into timer(id, due, body, every, attempt, ended, spent, apart,"
                            " plan, history) select id, due, body, every, attempt, ended, spent,"
                            " apart, plan, history from dead where id = ?")),
      bury_(prepared("insert into dead(id, due, body, every, attempt, ended, spent, apart, plan,"
                     " history) select ?1, ?2, ?3, 0, ?4, ?4, 0, ?5, ?6, ?7"
                     " where not exists(select 1 from timer where id = ?1)"
                     " on conflict do nothing")),
      gone_(prepared("select gone from mark")), note_gone_(prepared("update mark set gone = ?")) {}

// --- operations ---------------------------------------------------------------------------------

std::vector<put_result> sqlite_database::perform(const operations::put& o) {
    std::vector<put_result> results;
    results.reserve(o.timers.size());
    const std::uint32_t before = gone();
    for (const record& r : o.timers) results.push_back(put(r, o.how, before));
    return results;
}

put_result sqlite_database::put(const record& r, existing how, std::uint32_t gone) {
    if (how == existing::keep) return put_new(r, gone);
    if (how != existing::replace) {
        const std::optional<row> old = row_of(r.id);
        if (!old || !replaces(how, r.due, old->timer.due)) return put_new(r, gone);
    }
    put_instead(r, gone);
    return put_result::stored;
}

put_result sqlite_database::put_new(const record& r, std::uint32_t gone) {
    const bool is_apart = goes_apart(r);
    const std::string_view in_row = is_apart ? std::string_view() : r.body;
    if (keep_.run(r.id, r.due, r.every, std::int64_t{is_apart}, in_row, bytes_or_null{r.plan},
                  std::int64_t{gone}) == 0)
        return row_of(r.id) ? put_result::there_already : put_result::dead;
    if (is_apart) put_apart_.run(r.id, r.body);
    return put_result::stored;
}

void sqlite_database::put_instead(const record& r, std::uint32_t gone) {
    timer_state t(r);
    t.begin_after(gone);
    const std::optional<row> living = row_of(r.id);
    const std::optional<std::uint32_t> dead = remove_dead(r.id);
    if (living || dead) t.replace(std::max(living ? living->timer.attempt : 0, dead.value_or(0)));
    const bool is_apart = goes_apart(r);
    const std::string_view in_row = is_apart ? std::string_view() : r.body;
    remove_apart_.run(r.id);
    replace_.run(r.id, r.due, r.every, std::int64_t{is_apart}, in_row, bytes_or_null{r.plan},
                 std::int64_t{t.attempt}, std::int64_t{t.ended});
    if (is_apart) put_apart_.run(r.id, r.body);
}

// Returns the last attempt of timers that are gone: see later_of.
std::uint32_t sqlite_database::gone() {
    const bool is_there = gone_.first();
    const auto last = is_there ? static_cast<std::uint32_t>(gone_.integer(0)) : 0;
    gone_.reset();
    return last;
}

void sqlite_database::note_gone(std::uint32_t attempt) {
    const std::uint32_t before = gone(), last = later_of(before, attempt);
    if (last != before) note_gone_.run(std::int64_t{last});
}

std::optional<sqlite_database::row> sqlite_database::row_of(const std::string& id) {
    if (!row_.first(id)) return std::nullopt;
    row r{timer_of(row_), row_.integer(apart_column) != 0};
    row_.reset();
    return r;
}

// Returns the timer, if the attempt is its current one and open.
std::optional<sqlite_database::row> sqlite_database::current(const token& t) {
    std::optional<row> r = row_of(t.id);
    if (r && !r->timer.is_current(t)) r.reset();
    return r;
}

void sqlite_database::write(const timer_state& t) {
    write_.run(t.id, std::int64_t{t.attempt}, std::int64_t{t.ended}, std::int64_t{t.spent},
               std::int64_t{t.is_counted}, t.due, bytes_or_null{t.history},
               bytes_or_null{t.verdict});
}

// Of a timer whose deadline and texts are as they were.
void sqlite_database::write_attempts(const timer_state& t) {
    write_attempts_.run(t.id, std::int64_t{t.attempt}, std::int64_t{t.ended}, std::int64_t{t.spent},
                        std::int64_t{t.is_counted});
}

void sqlite_database::remove(const std::string& id, bool is_apart) {
    remove_.run(id);
    if (is_apart) remove_apart_.run(id);
}

// Removes a dead letter. Returns its last attempt, if there was one.
std::optional<std::uint32_t> sqlite_database::remove_dead(const std::string& id) {
    if (!dead_.first(id)) return std::nullopt;
    const auto attempt = static_cast<std::uint32_t>(dead_.integer(0));
    const bool is_apart = dead_.integer(1) != 0;
    dead_.reset();
    remove_dead_.run(id);
    if (is_apart) remove_apart_.run(id);
    return attempt;
}

// A file of an older version may hold a waiting timer and a dead letter of that id: both go.
cancel_result sqlite_database::perform(const operations::cancel& o) {
    const std::optional<std::uint32_t> dead = remove_dead(o.id);
    if (dead) note_gone(*dead);
    const std::optional<row> r = row_of(o.id);
    if (!r) return dead ? cancel_result::had_begun : cancel_result::unknown_id;
    note_gone(r->timer.attempt);
    remove(o.id, r->is_apart);
    return r->timer.is_open() ? cancel_result::had_begun : cancel_result::cancelled;
}

std::vector<end_reply> sqlite_database::perform(const operations::end& o) {
    const time_point now = today();
    std::vector<end_reply> replies;
    replies.reserve(o.endings.size());
    const std::uint32_t before = gone();
    std::uint32_t last = before;
    for (const ending& e : o.endings) replies.push_back(end(e, now, last));
    if (last != before) note_gone_.run(std::int64_t{last});
    return replies;
}

// Notes in `gone` the attempt of a timer that goes.
end_reply sqlite_database::end(const ending& e, time_point now, std::uint32_t& gone) {
    const std::string& id = e.token.id;
    if (e.how == outcome::done && end_done_.run(id, std::int64_t{e.token.attempt}) == 1) {
        gone = later_of(gone, e.token.attempt);
        return {true, {}};
    }
    std::optional<row> r = current(e.token);
    if (!r) return {};
    const afterwards how = r->timer.end(e, now);
    if (how == afterwards::gone) {
        gone = later_of(gone, r->timer.attempt);
        remove(id, r->is_apart);
        return {true, {}};
    }
    write(r->timer);
    if (how == afterwards::waits) return {true, r->timer.due};
    make_dead(id);
    return {true, {}};
}

touch_result sqlite_database::perform(const operations::touch& o) {
    std::optional<row> r = row_of(o.id);
    if (!r) return touch_result::unknown_id;
    r->timer.touch(o.due);
    write(r->timer);
    return touch_result::touched;
}

// The file knows no leases: the engine does, which is the only one that claims.
bool sqlite_database::perform(const operations::extend& o) { return current(o.token).has_value(); }

std::optional<bool> sqlite_database::perform(const operations::spend& o) {
    std::optional<row> r = current(o.token);
    if (!r) return false;
    r->timer.spend();
    write_attempts(r->timer);
    return true;
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

// The last open attempt is under way: the only process that uses the file claims the timer anew
// when its lease ends.
std::optional<overdue> sqlite_database::perform(const operations::oldest& o) {
    constexpr auto most = static_cast<std::int64_t>(overdue_looked_at);
    std::optional<overdue> found;
    if (oldest_.first(today(), o.prefix, after_all_with(o.prefix), most,
                      std::int64_t{unended_attempts}) &&
        (oldest_.integer(2) != 0 || oldest_.integer(3) == most)) {
        const time_point due = time_of(oldest_.integer(1));
        const auto open = static_cast<std::uint32_t>(oldest_.integer(4));
        found = {oldest_.bytes(0), due, due, false, open - (open != 0)};
    }
    oldest_.reset();
    return found;
}

totals sqlite_database::perform(const operations::count&) {
    count_.first();
    const auto n = [this](int column) {
        return static_cast<std::uint64_t>(count_.integer(column));
    };
    const totals all{n(0), n(1) - n(2), n(2) + n(3)};
    count_.reset();
    return all;
}

// A file of an older version may hold a waiting timer of that id as well: then both stay.
revive_result sqlite_database::perform(const operations::revive& o) {
    if (row_of(o.id)) {
        if (!dead_.first(o.id)) return revive_result::unknown_id;
        dead_.reset();
        complain_("a living timer has the id of the dead one: end or cancel one of them");
        return revive_result::failed;
    }
    if (make_living_.run(o.id) == 0) return revive_result::unknown_id;
    remove_dead_.run(o.id);
    timer_state t = row_of(o.id)->timer;
    t.revive(o.due);
    write(t);
    return revive_result::revived;
}

bool sqlite_database::perform(const operations::bury& o) {
    timer_state t(o.letter);
    t.bury();
    const bool is_apart = goes_apart(t);
    const std::string_view in_row = is_apart ? std::string_view() : t.body;
    const bool is_new =
        bury_.run(t.id, t.due, in_row, std::int64_t{t.attempt}, std::int64_t{is_apart},
                  bytes_or_null{t.plan}, bytes_or_null{t.history}) == 1;
    if (is_new && is_apart) put_apart_.run(t.id, t.body);
    return is_new;
}

// --- claims and ends ----------------------------------------------------------------------------

std::optional<std::vector<place>> sqlite_database::perform(const operations::take& o) {
    std::vector<place> got;
    const auto most = static_cast<std::int64_t>(o.limit);
    for (bool is = take_.first(o.after.due, o.after.id, o.until, most); is; is = take_.next())
        got.push_back({time_of(take_.integer(0)), take_.bytes(1)});
    return got;
}

std::optional<std::vector<claimed>> sqlite_database::perform(const operations::claim& o) {
    const time_point now = today();
    std::vector<claimed> all;
    all.reserve(o.ids.size());
    std::size_t bytes = 0;
    for (const std::string& id : o.ids) {
        all.push_back(bytes < o.terms.bytes ? claim(o.terms, now, id)
                                            : claimed{claimed::kind::later, {}});
        bytes += all.back().timer.body.size();
    }
    return all;
}

claimed sqlite_database::claim(const claim_terms& terms, time_point now, const std::string& id) {
    if (!find_.first(id)) return {};
    const bool is_damaged = find_.is_null(body_column);
    timer_state t = timer_of(find_);
    find_.reset();
    using enum claimed::kind;
    const bool is_granted = t.claim(terms, now, claim_ahead_);
    const claimed::kind what = !is_granted ? early : is_damaged ? damaged : granted;
    if (what == granted)
        write_attempts(t);
    else
        t.body.clear();
    if (what == damaged) make_dead(id);
    return {what, std::move(t)};
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
