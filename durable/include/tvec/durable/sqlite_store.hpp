/// \file
/// The store of one machine: a file, one process, one thread that writes.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/durable/detail/local_store.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

namespace detail {
class change_box;
}

/// Options of a file of timers.
struct sqlite_options {
    /// True: answered writes survive a power cut, because each group of writes is synced to the
    /// disk. False: they survive the end of the process.
    bool survives_power_cut = true;
    /// How long before its deadline a timer is claimed. Longer than a write to a busy disk takes,
    /// so the write does not make the timer late. At most an hour.
    duration claim_ahead{200};
    /// True: the whole file is checked when it is opened (integrity_check of SQLite). That takes
    /// about a second for a million timers. A damaged file is refused with io_error.
    bool checks_file = false;
    /// True: other connections may use the file as well, so a program can put timers in its own
    /// transactions (sqlite_transactions). The file may hold tables of others already, if its
    /// user_version and application_id are 0. The store waits up to five seconds for a transaction
    /// of another connection. A second store is refused all the same.
    bool shares_file = false;
};

/// Timers in an SQLite file (WAL). One store has it open at a time.
///
///     tvec::durable::sqlite_store store("/var/lib/orders/timers.db");
///
/// A thread of the store, which blocks all signals, does all requests that have come since it last
/// looked in one transaction. The answers come when the transaction is on the disk. The time is the
/// wall clock. A body of more than 700 bytes is written by its put and by nothing else. Up to 64
/// MiB of the file are kept in memory.
///
/// A file that was removed or replaced while it is open, or whose log was, stores nothing more: the
/// path is compared with what is open before each transaction and after it. The answers are
/// `failed`, or `unknown` if that happened during the transaction, until the file is back.
///
/// A full disk makes the answers `failed`, or `unknown` if the sync failed. A clean end leaves the
/// whole store in FILE. After any other end its log, FILE-wal, is needed as well: see
/// durable/docs/operating.md. A timer whose large body is lost is set aside among the dead letters,
/// and counts as damaged.
///
/// **The lock** is on the file itself (F_OFD_SETLK, after the bytes that SQLite locks), under any
/// of its names, and holds against every sqlite_store. The lock of SQLite also holds against other
/// programs, until this process opens and closes the file in another way. A process may read its
/// file in this way unless the file is shared. It keeps one descriptor of a shared file until it
/// ends. A program started by exec does not keep the lock.
///
/// **fork.** A forked child may only destroy its copy, which leaves file, lock and thread to the
/// parent. A child that keeps its copy keeps the file locked.
class TVEC_API sqlite_store final : public detail::local_store {
public:
    /// Opens the file, or makes it. Takes milliseconds, whatever the number of timers. Throws
    /// std::system_error, which names the file and the fault:
    ///
    ///  * device_or_resource_busy: the file is open already, in this process or in another.
    ///  * invalid_argument: the file holds no timers, its version is damaged, the name is no path
    ///    (empty, `:memory:`, an URI `file:...`), or an option is out of range.
    ///  * not_supported: the file has a newer version.
    ///  * no_such_file_or_directory: its folder, its log, or the file beside its log is missing.
    ///  * io_error: the file is damaged.
    ///  * permission_denied, read_only_file_system and others: errors of the system.
    explicit sqlite_store(const std::string& path, sqlite_options options = {});

    /// Does all requests, and closes the file. Waits for the disk. A no-op in a forked child.
    ~sqlite_store() override;

    /// Returns the number of transactions written so far.
    std::uint64_t groups() const noexcept;

    /// \cond
    int fd() const noexcept override { return bell_.fd(); }
    std::size_t run() override;
    reading now() const override;
    const store_traits& traits() const noexcept override { return traits_; }
    unsigned shard_of(std::string_view) const noexcept override { return 0; }
    std::size_t unanswered() const noexcept override { return unanswered_; }
    std::string last_failure() const override;
    void listen(store_listener listener) override { hint_ = std::move(listener.hint); }
    /// \endcond

private:
    friend class sqlite_transactions;
    class writer;

    void enqueue(std::unique_ptr<detail::job> j) override;
    const std::string& path() const noexcept;
    std::size_t answer_some();
    void tell_changes();

    store_traits traits_;
    pid_t made_by_;
    eventfd_doorbell bell_;
    std::size_t unanswered_ = 0;
    std::shared_ptr<detail::change_box> changes_;  // if the file is shared
    std::function<void(unsigned, std::string, time_point)> hint_{};
    std::unique_ptr<writer> writer_;
};

}  // namespace tvec::durable
