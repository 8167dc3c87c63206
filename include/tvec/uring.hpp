/// \file
/// The io_uring drivers, which wake a loop on a ring for its timers. They need liburing and
/// libtvec-uring.
#pragma once

#include "tvec/core/detail/standard.hpp"

#include "tvec/drivers/uring_doorbell.hpp"  // IWYU pragma: export
#include "tvec/drivers/uring_timeout.hpp"   // IWYU pragma: export
#include "tvec/drivers/uring_wait.hpp"      // IWYU pragma: export
#include "tvec/extra/choose_waking.hpp"     // IWYU pragma: export
