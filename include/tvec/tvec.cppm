/// \file
/// The module tvec, an experiment: `import tvec;` in place of includes. docs/install.md says how it
/// is built.
///
/// It has all that is public in the headers that lie beside it, but for those in C: what needs
/// liburing where liburing is, too, and durable timers where their headers are. A module exports no
/// macros: TVEC_VERSION and the others come with `#include <tvec/version.hpp>`. Coroutines need
/// `#include <coroutine>`, and other names of the standard library their headers.
module;

#include "tvec/tvec.hpp"

#if __has_include(<liburing.h>) && __has_include("tvec/drivers/uring_wait.hpp")
#define TVEC_HAS_URING
#include "tvec/drivers/choose_waking.hpp"
#include "tvec/drivers/uring_doorbell.hpp"
#include "tvec/drivers/uring_timeout.hpp"
#include "tvec/drivers/uring_wait.hpp"
#endif

#if __has_include("tvec/durable/timers.hpp")
#define TVEC_HAS_DURABLE
#include "tvec/durable/memory_store.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/sqlite_store.hpp"
#include "tvec/durable/store.hpp"
#include "tvec/durable/timers.hpp"
#endif

#if __has_include("tvec/durable/redis_store.hpp")
#define TVEC_HAS_DURABLE_REDIS
#include "tvec/durable/redis_store.hpp"
#endif

export module tvec;

// `scripts/check module` looks whether any name is missing.
export namespace tvec {

using tvec::boottime_clock;
using tvec::call;
using tvec::call_each;
using tvec::call_element;
using tvec::callback_meter;
using tvec::callback_timer;
using tvec::census;
using tvec::check;
using tvec::clocked_wheel;
using tvec::dump;
using tvec::eventfd_doorbell;
using tvec::interval;
using tvec::jiffies;
using tvec::lateness_histogram;
using tvec::manual_clock;
using tvec::missed_periods;
using tvec::never;
using tvec::owner_of;
using tvec::remote;
using tvec::remote_handle;
using tvec::remote_sender;
using tvec::runtime_tick_clock;
using tvec::schedule_error;
using tvec::scheduled;
using tvec::send_error;
using tvec::sent;
using tvec::sleep_for;
using tvec::sleep_until;
using tvec::sleeper;
using tvec::stoppable_sleeper;
using tvec::take_census;
using tvec::tick_clock;
using tvec::tick_count;
using tvec::timed;
using tvec::timeout_call;
using tvec::timeout_handle;
using tvec::timeout_pool;
using tvec::timeout_state;
using tvec::timer;
using tvec::timer_wheel;
using tvec::timerfd_alarm;
using tvec::to_text;
using tvec::with_timeout;
using tvec::with_timeout_until;

namespace geometry {

using tvec::geometry::beyond;
using tvec::geometry::chains_of;
using tvec::geometry::chains_per_row;
using tvec::geometry::chunk;
using tvec::geometry::entry_of;
using tvec::geometry::first_slot_of;
using tvec::geometry::lap_at;
using tvec::geometry::laps_of;
using tvec::geometry::last_chain_by_log2;
using tvec::geometry::level_1_laps;
using tvec::geometry::level_bits;
using tvec::geometry::level_by_log2;
using tvec::geometry::level_of;
using tvec::geometry::level_with;
using tvec::geometry::levels;
using tvec::geometry::log2_of;
using tvec::geometry::never_slot;
using tvec::geometry::overflow;
using tvec::geometry::overflow_slot_before;
using tvec::geometry::overflow_slot_for;
using tvec::geometry::overflow_slots;
using tvec::geometry::ring_of;
using tvec::geometry::root;
using tvec::geometry::root_bits;
using tvec::geometry::rows_of;
using tvec::geometry::shift_of;
using tvec::geometry::slot_at;
using tvec::geometry::slot_before;
using tvec::geometry::slot_by_log2;
using tvec::geometry::slot_for;
using tvec::geometry::slot_number;
using tvec::geometry::slots;
using tvec::geometry::visit_of;
using tvec::geometry::width_of;
using tvec::geometry::word_bits;
using tvec::geometry::words;
using tvec::geometry::words_of;

}  // namespace geometry

#ifdef TVEC_HAS_URING
using tvec::choose_waking;
using tvec::is_uring_timeout;
using tvec::name_of;
using tvec::uring_doorbell;
using tvec::uring_doorbell_data;
using tvec::uring_timeout;
using tvec::uring_timeout_tag;
using tvec::uring_wait;
using tvec::waking;
#endif

namespace durable {

#ifdef TVEC_HAS_DURABLE
using tvec::durable::cancel_result;
using tvec::durable::claim_terms;
using tvec::durable::claimed;
using tvec::durable::counters;
using tvec::durable::delivery;
using tvec::durable::duration;
using tvec::durable::earliest_due;
using tvec::durable::end_reply;
using tvec::durable::ending;
using tvec::durable::epoch;
using tvec::durable::existing;
using tvec::durable::gauges;
using tvec::durable::largest_body;
using tvec::durable::latest_due;
using tvec::durable::longest_id;
using tvec::durable::memory_database;
using tvec::durable::memory_store;
using tvec::durable::next_beat;
using tvec::durable::options;
using tvec::durable::place;
using tvec::durable::put_result;
using tvec::durable::reading;
using tvec::durable::record;
using tvec::durable::refusal;
using tvec::durable::revive_result;
using tvec::durable::sqlite_options;
using tvec::durable::sqlite_store;
using tvec::durable::standing;
using tvec::durable::store;
using tvec::durable::store_listener;
using tvec::durable::store_traits;
using tvec::durable::stored_timer;
using tvec::durable::time_point;
using tvec::durable::timers;
using tvec::durable::to_prometheus;
using tvec::durable::to_text;
using tvec::durable::token;
using tvec::durable::totals;
using tvec::durable::unfinished;
using tvec::durable::which;
#endif

#ifdef TVEC_HAS_DURABLE_REDIS
using tvec::durable::redis_options;
using tvec::durable::redis_store;
using tvec::durable::redis_tls;
#endif

}  // namespace durable

}  // namespace tvec
