// The timers of one SQLite file: the operations of a store, done at once, within a transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../local/job.hpp"
#include "sqlite_file.hpp"
#include "sqlite_statement.hpp"
#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

// Not shared: this process owns its only shard. The time is the wall clock.
class sqlite_database final : public detail::database {
public:
    // Opens the file, or makes it. Throws std::system_error, which names it.
    sqlite_database(const std::string& path, const sqlite_options& options);

    void begin() { begin_.run(); }
    void commit() { commit_.run(); }
    void roll_back() noexcept;
    // Call it after a commit.
    void tend_log() { file_.tend_log(); }
    // Returns what failed since the last call; "" if nothing did.
    std::string take_complaint() { return std::exchange(complaint_, {}); }
    // Leaves everything to the parent: see sqlite_file.
    void leave() noexcept { file_.leave(); }

    std::vector<put_result> put(const std::vector<record>& timers, existing how) override;
    cancel_result cancel(const std::string& id) override;
    std::vector<end_reply> end(const std::vector<ending>& endings) override;
    std::optional<stored_timer> find(const std::string& id) override;
    std::vector<stored_timer> list(timer_set set, const place& after, std::size_t limit) override;
    totals count() override;
    revive_result revive(const std::string& id, time_point due) override;
    std::size_t join(duration) override { return 1; }
    epoch own(unsigned, duration) override { return 1; }
    void release(unsigned, epoch) override {}
    std::optional<std::vector<place>> take(unsigned, epoch, const place& after, time_point until,
                                           std::size_t limit) override;
    std::optional<std::vector<claimed>> claim(unsigned, epoch, const claim_terms& terms,
                                              const std::vector<std::string>& ids) override;
    std::optional<bool> spend(unsigned, epoch, const token& t) override;

private:
    // A timer without its id and body.
    struct state {
        time_point due;
        duration every;
        std::int64_t attempt, ended;
        bool is_apart;
    };

    put_result put(const record& r, existing how);
    put_result put_new(const record& r);
    void put_instead(const record& r);
    void put_apart(const record& r);
    std::optional<state> state_of(const std::string& id);
    void remove(const std::string& id, bool is_apart);
    std::optional<std::int64_t> remove_dead(const std::string& id);
    end_reply end(const ending& e, time_point now);
    claimed claim(const claim_terms& terms, time_point until, const std::string& id);
    void bury(const std::string& id);
    detail::statement prepared(const std::string& sql) { return {file_.get(), sql.c_str()}; }

    duration claim_ahead_;
    std::string complaint_;
    detail::sqlite_file file_;
    detail::statement begin_, commit_, keep_, replace_, put_apart_, state_, remove_, remove_apart_,
        dead_, remove_dead_, end_done_, end_again_, end_returned_, spend_, find_, list_, list_dead_,
        count_, take_, claim_, bury_, revive_;
};

}  // namespace tvec::durable
