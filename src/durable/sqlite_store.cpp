#include "tvec/durable/sqlite_store.hpp"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "sqlite_database.hpp"

namespace tvec::durable {

namespace {

reading wall_clock() {
    return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

enum class outcome { done, failed, unknown };

// What was asked. It is made, answered and destroyed by the loop's thread; the writer's does the
// work.
struct job {
    virtual ~job() = default;
    virtual void work(sqlite_database& db) = 0;
    virtual void answer(outcome how) = 0;
};

template <class Work, class... Answer> struct typed_job final : job {
    typed_job(store::completion<Answer...> t, std::tuple<Answer...> f, std::tuple<Answer...> u,
              Work w)
        : then(std::move(t)), failed(std::move(f)), unknown(std::move(u)), does(std::move(w)) {}

    void work(sqlite_database& db) override { done.emplace(does(db)); }
    void answer(outcome how) override {
        std::tuple<Answer...>& a = how == outcome::done     ? *done
                                   : how == outcome::failed ? failed
                                                            : unknown;
        if (then) std::apply(then, std::move(a));
    }

    store::completion<Answer...> then;
    std::optional<std::tuple<Answer...>> done;
    std::tuple<Answer...> failed, unknown;
    Work does;
};

using jobs = std::vector<std::unique_ptr<job>>;

// So many answers are given in one turn of the loop, so that what is due meanwhile is not late.
constexpr std::size_t in_a_turn = 1'000;

// A thread that takes no signals: they are for the program.
template <class F> std::thread thread_without_signals(F f) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread t(std::move(f));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return t;
}

}  // namespace

// The thread that writes, and what goes to and fro.
class sqlite_store::writer {
public:
    writer(const std::string& path, const sqlite_options& o, eventfd_doorbell bell)
        : db_(path, o.survives_power_cut ? "full" : "normal"), bell_(std::move(bell)),
          thread_(thread_without_signals([this] { write(); })) {}

    ~writer() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        some_.notify_one();
        thread_.join();
    }

    void post(std::unique_ptr<job> j) {
        bool is_first;
        {
            const std::lock_guard lock(mutex_);
            is_first = asked_.empty();
            asked_.push_back(std::move(j));
        }
        if (is_first) some_.notify_one();
    }

    // What was finished first and is not answered, and how; nothing if that is all.
    std::pair<outcome, std::unique_ptr<job>> take() {
        if (next_ == answering_.second.size()) {
            next_ = 0;
            answering_.second.clear();
            const std::lock_guard lock(mutex_);
            if (finished_.empty()) return {};
            answering_ = std::move(finished_.front());
            finished_.pop_front();
        }
        return {answering_.first, std::move(answering_.second[next_++])};
    }

    std::string last_failure() const {
        const std::lock_guard lock(mutex_);
        return failure_;
    }
    std::uint64_t groups() const noexcept { return groups_; }

private:
    void write() {
        for (jobs group = wait(); !group.empty(); group = wait()) {
            const outcome how = write(group);
            {
                const std::lock_guard lock(mutex_);
                finished_.emplace_back(how, std::move(group));
            }
            bell_();
        }
    }

    // Until something is asked; nothing if it is over.
    jobs wait() {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return is_over_ || !asked_.empty(); });
        return std::exchange(asked_, {});
    }

    // In one transaction.
    outcome write(const jobs& group) try {
        db_.begin();
        for (const auto& j : group) j->work(db_);
        db_.commit();
        ++groups_;
        return outcome::done;
    } catch (const std::exception& e) {
        db_.roll_back();
        const std::lock_guard lock(mutex_);
        failure_ = e.what();
        return is_sync(e) ? outcome::unknown : outcome::failed;
    }

    // If it was the sync that failed, nobody knows what is on the disk.
    static bool is_sync(const std::exception& e) {
        const auto* const f = dynamic_cast<const detail::sqlite_failure*>(&e);
        return f && (f->extended_code == SQLITE_IOERR_FSYNC ||
                     f->extended_code == SQLITE_IOERR_DIR_FSYNC);
    }

    sqlite_database db_;
    eventfd_doorbell bell_;
    mutable std::mutex mutex_;
    std::condition_variable some_;
    jobs asked_;
    std::deque<std::pair<outcome, jobs>> finished_;
    std::string failure_;
    bool is_over_ = false;
    std::atomic<std::uint64_t> groups_ = 0;
    std::pair<outcome, jobs> answering_;  // by the loop's thread,
    std::size_t next_ = 0;                // of them
    std::thread thread_;
};

sqlite_store::sqlite_store(const std::string& path, sqlite_options options)
    : traits_{1, false, options.claim_ahead},
      writer_(std::make_unique<writer>(path, options, bell_)) {}

sqlite_store::~sqlite_store() = default;

std::uint64_t sqlite_store::groups() const noexcept { return writer_->groups(); }
std::string sqlite_store::last_failure() const { return writer_->last_failure(); }
reading sqlite_store::now() const { return wall_clock(); }

std::size_t sqlite_store::run() {
    bell_.acknowledge();
    for (std::size_t called = 0; called < in_a_turn; ++called) {
        const auto [how, j] = writer_->take();
        if (!j) return called;
        --unanswered_;
        j->answer(how);
    }
    bell_();  // there may be more
    return in_a_turn;
}

template <class... Answer, class Work>
void sqlite_store::ask(completion<Answer...> then, std::tuple<Answer...> failed,
                       std::tuple<Answer...> unknown, Work work) {
    ++unanswered_;
    writer_->post(std::make_unique<typed_job<Work, Answer...>>(
        std::move(then), std::move(failed), std::move(unknown), std::move(work)));
}

// Where a failure is unknown, too.
template <class Answer, class Work>
void sqlite_store::ask(completion<standing, Answer> then, Work work) {
    const std::tuple<standing, Answer> unknown{standing::unknown, Answer{}};
    const auto with_standing = [work = std::move(work)](sqlite_database& db) {
        return std::tuple<standing, Answer>(standing::done, work(db));
    };
    ask(std::move(then), unknown, unknown, with_standing);
}

void sqlite_store::put(std::vector<record> timers, existing how,
                       completion<std::vector<put_result>> then) {
    const auto all = [n = timers.size()](put_result r) {
        return std::tuple(std::vector<put_result>(n, r));
    };
    ask(std::move(then), all(put_result::failed), all(put_result::unknown),
        [timers = std::move(timers), how](sqlite_database& db) {
            std::vector<put_result> results;
            results.reserve(timers.size());
            for (const record& r : timers) results.push_back(db.put(r, how));
            return std::tuple(std::move(results));
        });
}

void sqlite_store::cancel(std::string id, completion<cancel_result> then) {
    ask(std::move(then), std::tuple(cancel_result::failed), std::tuple(cancel_result::unknown),
        [id = std::move(id)](sqlite_database& db) { return std::tuple(db.cancel(id)); });
}

void sqlite_store::end(unsigned, std::vector<ending> endings,
                       completion<standing, std::vector<end_reply>> then) {
    ask(std::move(then), [endings = std::move(endings)](sqlite_database& db) {
        const time_point now = std::chrono::floor<duration>(wall_clock());
        std::vector<end_reply> replies;
        replies.reserve(endings.size());
        for (const ending& e : endings) replies.push_back(db.end(e, now));
        return replies;
    });
}

void sqlite_store::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    ask(std::move(then), [id = std::move(id)](sqlite_database& db) { return db.find(id); });
}

void sqlite_store::list(which set, place after, std::size_t limit,
                        completion<standing, std::vector<stored_timer>> then) {
    ask(std::move(then), [set, after = std::move(after), limit](sqlite_database& db) {
        return db.list(set, after, limit);
    });
}

void sqlite_store::count(completion<standing, totals> then) {
    ask(std::move(then), [](sqlite_database& db) { return db.count(); });
}

void sqlite_store::revive(std::string id, time_point due, completion<revive_result> then) {
    ask(std::move(then), std::tuple(revive_result::failed), std::tuple(revive_result::unknown),
        [id = std::move(id), due](sqlite_database& db) { return std::tuple(db.revive(id, due)); });
}

void sqlite_store::join(duration, completion<standing, std::size_t> then) {
    ask(std::move(then), [](sqlite_database&) { return std::size_t{1}; });
}

void sqlite_store::own(unsigned, duration, completion<standing, epoch> then) {
    ask(std::move(then), [](sqlite_database&) { return epoch{1}; });
}

void sqlite_store::release(unsigned, epoch, completion<standing> then) {
    ask(std::move(then), std::tuple(standing::unknown), std::tuple(standing::unknown),
        [](sqlite_database&) { return std::tuple(standing::done); });
}

void sqlite_store::take(unsigned, epoch, place after, time_point until, std::size_t limit,
                        completion<standing, std::vector<place>> then) {
    ask(std::move(then), [after = std::move(after), until, limit](sqlite_database& db) {
        return db.take(after, until, limit);
    });
}

void sqlite_store::claim(unsigned, epoch, claim_terms terms, std::vector<std::string> ids,
                         completion<standing, std::vector<claimed>> then) {
    ask(std::move(then),
        [terms, ids = std::move(ids), ahead = traits_.claim_ahead](sqlite_database& db) {
            const time_point until = std::chrono::floor<duration>(wall_clock()) + ahead;
            std::vector<claimed> all;
            all.reserve(ids.size());
            for (const std::string& id : ids) all.push_back(db.claim(terms, until, id));
            return all;
        });
}

}  // namespace tvec::durable
