/// \file
/// The store of one machine: a file, one process, one thread that writes.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include <sys/types.h>

#include <memory>
#include <string>

#include "tvec/drivers/eventfd_doorbell.hpp"
#include "tvec/durable/detail/local_store.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// How a file of timers is kept.
struct sqlite_options {
    /// Whether acknowledged writes survive a power cut (each group of writes is synced to the
    /// disk), or only the end of the process.
    bool survives_power_cut = true;
    /// So long before its deadline a timer is claimed, so that writing that does not make it late:
    /// longer than the disk takes, also when it is busy.
    /// At most an hour.
    duration claim_ahead{200};
    /// Whether all of the file is checked when it is opened (SQLite's integrity_check). That takes
    /// about a second for a million timers. A damaged file is refused with io_error.
    bool checks_file = false;
};

/// Timers in an SQLite file (WAL). One process has it open at a time, and shares it with nobody.
///
///     tvec::durable::sqlite_store store("/var/lib/orders/timers.db");
///
/// **Writing.** A thread of the store does what is asked. It does all that has come since it last
/// looked in one transaction, and rings the descriptor. It takes no signals. Answers come when the
/// transaction is on the disk, so many calls at once cost less each. A body of more than 700 bytes
/// is written by a put and by nothing else.
///
/// **Attempts** that were claimed and have not ended come again as soon as the file is opened.
///
/// **Time** is the wall clock of the machine.
///
/// **Failures.** A full disk, or one that cannot be written, makes the answers `failed`, or
/// `unknown` if the sync failed. Nothing that was answered is lost by it. The next call is tried
/// again. A timer whose large body is lost is set aside among the dead, and counts as damaged.
///
/// **The files.** A store is FILE and its log FILE-wal. A clean end leaves FILE alone, which is
/// then the whole store. After any other end both are needed: FILE is refused if its log is
/// missing. Removed bodies may stay readable in free pages. A timer with an id of 20 bytes and a
/// body of 64 takes about 150 bytes. Up to 64 MiB of the file are kept in memory.
///
/// **The lock** is on the file itself (F_OFD_SETLK, after SQLite's own bytes), under any of its
/// names. It holds against every program that uses this class. SQLite's own lock also holds against
/// other programs, until this process opens and closes the file in another way.
///
/// **Versions.** The file has an application id and a version of its tables. Files of something
/// else, of a newer version, and with a damaged version are refused. Older files are upgraded. If a
/// file of version 2 has a living and a dead timer of one id, both stay: `cancel` and a replacing
/// put remove both, and `revive` fails while the other one lives.
///
/// **fork.** The store belongs to the process that made it. A forked child may only destroy its
/// copy, which returns at once and leaves file, lock and thread to the parent. A child that keeps
/// its copy keeps the file locked when the parent ends. A program that is started by exec does not.
class TVEC_API sqlite_store final : public detail::local_store {
public:
    /// Opens the file, and makes it if it is not there. Milliseconds, however many timers it has.
    /// Throws std::system_error, which names the file and says what is wrong:
    ///
    ///  * device_or_resource_busy: it is open already, in this process or in another.
    ///  * invalid_argument: it is no file of timers, its version is damaged, the name is no path
    ///    (empty, `:memory:`, an URI `file:...`), or an option is out of range.
    ///  * not_supported: it is of a newer version.
    ///  * no_such_file_or_directory: its folder, its log, or the file beside its log is missing.
    ///  * io_error: it is damaged.
    ///  * permission_denied, read_only_file_system and others: the system says so.
    explicit sqlite_store(const std::string& path, sqlite_options options = {});

    /// Does all that was asked, and closes the file. Waits for the disk. In a forked child it does
    /// nothing.
    ~sqlite_store() override;

    /// How many transactions were written so far.
    std::uint64_t groups() const noexcept;

    /// \cond
    int fd() const noexcept override { return bell_.fd(); }
    std::size_t run() override;
    reading now() const override;
    const store_traits& traits() const noexcept override { return traits_; }
    unsigned shard_of(std::string_view) const noexcept override { return 0; }
    std::size_t unanswered() const noexcept override { return unanswered_; }
    std::string last_failure() const override;
    void listen(store_listener) override {}  // nobody else can put, and no link can break
    /// \endcond

private:
    class writer;

    void post(std::unique_ptr<detail::job> j) override;

    store_traits traits_;
    pid_t made_by_;
    eventfd_doorbell bell_;
    std::size_t unanswered_ = 0;
    std::unique_ptr<writer> writer_;
};

}  // namespace tvec::durable
