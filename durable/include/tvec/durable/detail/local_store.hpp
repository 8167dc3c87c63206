/// \file
/// The common base of the stores that do their operations in this process.
#pragma once

#include <memory>

#include "tvec/core/detail/export.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

enum class fate;
struct job;

/// Turns each operation into a job, for a thread that holds the timers.
class TVEC_API local_store : public store {
public:
    void submit(operation o) override;

private:
    /// Has the job done, and answered later.
    virtual void enqueue(std::unique_ptr<job> j) = 0;
};

}  // namespace tvec::durable::detail
