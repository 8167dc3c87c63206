// The operations of a store, on the timers of one SQLite file.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "../local/job.hpp"
#include "sqlite_statement.hpp"

namespace tvec::durable::detail {

// Returns the database of a connection to a file of timers. This process owns its only shard. The
// time is the wall clock. The caller has a transaction open around each operation. `complain` is
// called with a fault of the file that does not make the transaction fail.
std::unique_ptr<database> database_in(sqlite3* db, duration claim_ahead,
                                      std::function<void(std::string)> complain);

}  // namespace tvec::durable::detail
