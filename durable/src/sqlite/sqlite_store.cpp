#include "tvec/durable/sqlite_store.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../local/job.hpp"
#include "../local/wall_clock.hpp"
#include "change_box.hpp"
#include "sqlite_database.hpp"
#include "sqlite_file.hpp"

namespace tvec::durable {

namespace {

using detail::fate, detail::job, detail::wall_clock;
using jobs = std::vector<std::unique_ptr<job>>;

// Answers in one turn of the loop. More would make due timers late.
constexpr std::size_t in_a_turn = 1'000;

// Starts a thread that takes no signals, because they are for the program.
template <class F> std::thread thread_without_signals(F f) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread t(std::move(f));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return t;
}

}  // namespace

// The thread that writes, and the jobs between it and the loop.
class sqlite_store::writer {
public:
    // Opens the file, or makes it. Throws std::system_error, which names it.
    writer(const std::string& path, const sqlite_options& o, eventfd_doorbell bell) try
        : file_(path, o), begin_(file_.get(), "begin immediate"), commit_(file_.get(), "commit"),
          db_(detail::database_in(file_.get(), o.claim_ahead,
                                  [this](std::string fault) { note(std::move(fault)); })),
          bell_(std::move(bell)), thread_(thread_without_signals([this] { write(); })) {
    } catch (const detail::sqlite_failure& e) {
        throw std::system_error(e.code(), "sqlite_store: " + path + ": " + e.why);
    }

    ~writer() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        some_.notify_one();
        thread_.join();
    }

    // Leaves everything to the parent: see sqlite_file.
    void leave() noexcept { file_.leave(); }

    void enqueue(std::unique_ptr<job> j) {
        bool is_first;
        {
            const std::lock_guard lock(mutex_);
            is_first = asked_.empty();
            asked_.push_back(std::move(j));
        }
        if (is_first) some_.notify_one();
    }

    // Returns the first job that is finished and not answered, and its fate. Returns no job if
    // there is none.
    std::pair<fate, std::unique_ptr<job>> take() {
        assert(next_ <= answering_.second.size() && "every job is answered once");
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
    const std::string& path() const noexcept { return file_.path(); }

private:
    void write() {
        for (jobs group = wait(); !group.empty(); group = wait()) {
            const fate how = write(group);
            {
                const std::lock_guard lock(mutex_);
                finished_.emplace_back(how, std::move(group));
            }
            bell_();
        }
    }

    // Waits for jobs, and returns all of them. Returns none once the store is being closed.
    jobs wait() {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return is_over_ || !asked_.empty(); });
        return std::exchange(asked_, {});
    }

    // Does a group of jobs in one transaction. If the file is gone or overwritten nothing is done,
    // and if that happened meanwhile nobody knows.
    fate write(const jobs& group) try {
        if (const char* const why = file_.fault()) throw std::runtime_error(why);
        begin_.run();
        for (const auto& j : group) j->work(*db_);
        commit_.run();
        ++groups_;
        if (const char* const why = file_.fault()) {
            note(why);
            return fate::unknown;
        }
        tend_log();
        return fate::done;
    } catch (const std::exception& e) {
        roll_back();
        note(e.what());
        return is_sync(e) ? fate::unknown : fate::failed;
    }

    // A failure is harmless: the group is safe already.
    void tend_log() try { file_.tend_log(); } catch (const std::exception& e) {
        roll_back();
        note(e.what());
    }

    void roll_back() noexcept {
        if (sqlite3_get_autocommit(file_.get()) == 0)
            sqlite3_exec(file_.get(), "rollback", nullptr, nullptr, nullptr);
        file_.note_log();
    }

    void note(std::string failure) {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(failure);
    }

    // Returns true if a sync failed, after which the contents of the disk are unknown.
    static bool is_sync(const std::exception& e) {
        const auto* const f = dynamic_cast<const detail::sqlite_failure*>(&e);
        return f && (f->extended_code == SQLITE_IOERR_FSYNC ||
                     f->extended_code == SQLITE_IOERR_DIR_FSYNC);
    }

    detail::sqlite_file file_;
    detail::statement begin_, commit_;
    std::unique_ptr<detail::database> db_;
    eventfd_doorbell bell_;
    mutable std::mutex mutex_;
    std::condition_variable some_;
    jobs asked_;
    std::deque<std::pair<fate, jobs>> finished_;
    std::string failure_;
    bool is_over_ = false;
    std::atomic<std::uint64_t> groups_ = 0;
    std::pair<fate, jobs> answering_;  // by the thread of the loop
    std::size_t next_ = 0;             // in this group
    std::thread thread_;
};

sqlite_store::sqlite_store(const std::string& path, sqlite_options options)
    : traits_{1, options.shares_file, options.claim_ahead}, made_by_(getpid()),
      changes_(options.shares_file ? std::make_shared<detail::change_box>(bell_) : nullptr),
      writer_(std::make_unique<writer>(path, options, bell_)) {}

sqlite_store::~sqlite_store() {
    if (getpid() != made_by_) writer_.release()->leave();  // the thread belongs to the parent
}

std::uint64_t sqlite_store::groups() const noexcept { return writer_->groups(); }
const std::string& sqlite_store::path() const noexcept { return writer_->path(); }
std::string sqlite_store::last_failure() const { return writer_->last_failure(); }
reading sqlite_store::now() const { return wall_clock(); }

std::size_t sqlite_store::run() {
    bell_.acknowledge();
    const std::size_t called = answer_some();
    if (changes_) tell_changes();
    return called;
}

// Tells the engine of timers that other connections have put, with the deadlines that they have: a
// part of a transaction may have been rolled back.
void sqlite_store::tell_changes() {
    const auto tell = [this](standing, const std::optional<stored_timer>& t) {
        if (t && hint_) hint_(0, t->id, t->due);
    };
    for (std::string& id : changes_->take(in_a_turn)) submit(operations::find{std::move(id), tell});
}

std::size_t sqlite_store::answer_some() {
    for (std::size_t called = 0; called < in_a_turn; ++called) {
        const auto [how, j] = writer_->take();
        if (!j) return called;
        assert(unanswered_ > 0 && "every job is answered once");
        --unanswered_;
        j->answer(how);
    }
    bell_();  // there may be more
    return in_a_turn;
}

void sqlite_store::enqueue(std::unique_ptr<detail::job> j) {
    ++unanswered_;
    writer_->enqueue(std::move(j));
}

}  // namespace tvec::durable
