/// \file
/// The store of one machine: a file, one process, one thread that writes.
#pragma once

#include "tvec/detail/core/standard.hpp"

#include <sys/types.h>

#include <memory>
#include <string>

#include "tvec/detail/durable/local_store.hpp"
#include "tvec/durable/store.hpp"
#include "tvec/eventfd_doorbell.hpp"

namespace tvec::durable {

/// How a file of timers is kept.
struct sqlite_options {
    /// Whether what was answered survives a power cut (each group of writes is synced to the disk),
    /// or only the end of the process.
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
/// **Writing.** A thread of its own does what is asked, all that has come since it last looked in
/// one transaction; the loop is told by the descriptor. It takes no signals. Answers come when the
/// transaction is on the disk, so the more is asked at once, the less each costs.
///
/// **Attempts** are counted before the handler is called, also if the process is killed in it. What
/// was claimed and has not ended comes again as soon as the file is opened.
///
/// **Time** is the wall clock of the machine.
///
/// **Failures.** A disk that is full, or cannot be written, is said in the answers: `failed`, or
/// `unknown` if it was the sync that failed. Nothing that was answered is lost by it, and the next
/// thing that is asked is tried again.
///
/// **The file** has an application id and a version of its tables: a file of something else, and
/// one of a newer version, is refused; one of an older version is made a newer one. About 150 bytes
/// for a timer with an id of 20 bytes and a body of 64. Up to 64 MiB of it are kept in memory.
class TVEC_API sqlite_store final : public detail::local_store {
public:
    /// Opens that file, and makes it if it is not there. Throws std::system_error, which says the
    /// file and what is wrong with it: invalid_argument if it is no file of timers, not_supported
    /// if it is of a newer version, device_or_resource_busy if another process has it open.
    explicit sqlite_store(const std::string& path, sqlite_options options = {});

    /// Does all that was asked, and closes the file. Waits for the disk.
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
