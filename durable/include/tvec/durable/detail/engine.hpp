/// \file
/// The life of durable timers between the store and the wheel, in ticks. tvec/durable/timers.hpp
/// puts types and a clock around it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tvec/core/timer_wheel.hpp"
#include "tvec/durable/metrics.hpp"
#include "tvec/durable/store.hpp"

namespace tvec::durable {

/// A timer that has come due, for the handler to keep.
struct delivery {
    token which;         ///< for `done` and `again`
    time_point due;      ///< what it was put for; of a period, the beat
    duration every{};    ///< its period, or 0
    std::string body{};  ///< as it was put
};

/// Why a call was refused: nothing was sent, and the completion is not called.
enum class refusal {
    none,            ///< it was not
    bad_id,          ///< empty, or longer than longest_id
    body_too_large,  ///< larger than largest_body
    bad_due,         ///< before earliest_due or after latest_due
    bad_period,      ///< negative, or longer than until latest_due
    too_many,        ///< options::most_asked calls, or most_asked_bytes, are unanswered: try later
    stopping         ///< `stop` has been called
};

/// Returns the reason of a refusal in a few words.
TVEC_API const char* to_text(refusal r) noexcept;

/// How durable timers are kept. The constructor of `timers` throws std::invalid_argument, which
/// names the option, if one is out of its range. Every duration is from 1 ms to 1000 days, and
/// every number at least 1, but for `attempts`.
struct options {
    duration horizon{60'000};      ///< how far ahead the wheel is filled,
    std::size_t window = 200'000;  ///< and with how many timers at most; of each shard a share
    duration claim_lease{30'000};  ///< how long a delivery may take before it comes again

    /// A timer is dead when its handler had it so often in a row without an end; 0: no limit. A
    /// handler that ends its process may have it once more: the first time is not counted, since
    /// nobody can tell which of the deliveries under way ended the process.
    std::uint32_t attempts = 0;
    duration shard_lease{10'000};  ///< how long a dead process keeps its shards
    duration sweep{1'000};         ///< how late a lost hint makes a timer
    duration retry{1'000};         ///< how long to wait when the store could not

    /// Deliveries in one turn of the loop at most, and ends at most that the store has not
    /// answered: a process that is killed has so many of its ended deliveries come again.
    std::size_t slice = 8'000;
    duration turn{10};                          ///< how long a turn calls handlers, about
    std::size_t most_asked = 100'000;           ///< unanswered calls; more are refused,
    std::size_t most_asked_bytes = 67'108'864;  ///< and of unanswered puts; more are refused
    std::size_t most_held_bytes = 67'108'864;   ///< bodies claimed ahead; then no more is claimed
    /// Told what handlers and completions have thrown. Must not throw.
    std::function<void(std::exception_ptr)> on_exception{};
};

/// The calls, ends and shards that `stop` could not end before its time limit.
struct unfinished {
    std::size_t calls = 0;   ///< unanswered puts, cancels and questions: their outcome is unknown
    std::size_t ends = 0;    ///< ends that the store has not answered: these deliveries come again
    std::size_t shards = 0;  ///< shards not given back: others have them when their leases are over
    /// Returns whether anything is unfinished.
    bool any() const noexcept { return calls + ends + shards != 0; }
};

namespace detail {

/// The wheel's clock: in which tick a delay ends, and what it reads.
struct pace {
    std::function<jiffies(std::chrono::microseconds)> tick_after;
    std::function<std::chrono::microseconds()> reading;
};

/// See `timers`.
class TVEC_API engine {
public:
    /// Called with what is due.
    using handler = std::function<void(delivery)>;
    /// The function that is called with an answer.
    template <class... Answer> using completion = store::completion<Answer...>;

    /// See `timers`.
    engine(timer_wheel& wheel, pace p, store& from, handler h, options o);
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    /// Forgets what is near; shards are kept until their leases end. `stop` gives them back.
    ~engine();

    // --- what users do --------------------------------------------------------------------------

    /// Stores a timer. Cost: a message to the store.
    refusal put(record timer, existing how, completion<put_result> then = {});

    /// Stores them in one round trip; each is by itself, and the answers are in their order. If one
    /// of them is refused, none is sent. Counts as one call for each.
    refusal put_all(std::vector<record> timers, existing how,
                    completion<std::vector<put_result>> then = {});

    /// Takes a timer away, whether it waits, is being delivered or is dead.
    refusal cancel(const std::string& id, completion<cancel_result> then = {});

    /// Ends a delivery. A timer with a period comes again at the first beat after now, else it is
    /// gone. `then` is told whether the attempt was the current one. Never refused while a delivery
    /// is under way, and repeated until the store has answered: also after `stop`.
    void done(token which, completion<bool> then = {});

    /// Ends a delivery and has the timer come again at that time. A period goes on from there.
    /// Returns refusal::bad_due, and nothing has ended, if that is out of range.
    refusal again(token which, time_point due, completion<bool> then = {});

    /// The timer of that id that waits or is being delivered; none if there is none, or if the link
    /// broke, which `standing` tells apart.
    refusal find(std::string id, completion<standing, std::optional<stored_timer>> then);

    /// At most `limit` timers in order of their deadlines, those next after that place. Page by
    /// page: begin with place{}, and go on from the due and id of the last that was shown.
    refusal list(which set, place after, std::size_t limit,
                 completion<standing, std::vector<stored_timer>> then);

    /// How many timers the store holds.
    refusal count(completion<standing, totals> then);

    /// Has a dead timer wait again, for that deadline.
    refusal revive(const std::string& id, time_point due, completion<revive_result> then = {});

    /// Takes nothing more, delivers nothing more, and gives back the shards and what was claimed
    /// and not delivered. All calls but `done` and `again` are refused from now on. `then` is
    /// called once: by `run` when everything is answered, or by the wheel after `at_most`, with
    /// what is unfinished. Deliveries that are not ended come again when their leases are over.
    void stop(std::function<void(const unfinished&)> then = {}, duration at_most = duration(5'000));

    // --- the loop's side ------------------------------------------------------------------------

    /// Readable when the store has answers: call `run`. To be watched for reading.
    int fd() const noexcept { return store_.fd(); }

    /// Once per turn of the loop, after the wheel's `run`: calls completions of what the store has
    /// answered, and handlers of what is due, and asks the store for more. Handlers are called for
    /// options::turn, and the one that is running then: what is left is next, a tick later.
    void run();

    /// The store's time.
    time_point now() const { return std::chrono::floor<duration>(store_.now()); }

    /// Returns whether this process owns a shard, and all timers of its shards that are due before
    /// the horizon are in the window, or as many as there is room for.
    bool ready() const noexcept;

    /// Counters of everything that has happened so far.
    const counters& count() const noexcept { return count_; }
    /// Gauges: the state at this moment.
    gauges now_near() const noexcept;
    /// How late handlers were called for the first time, by the store's clock.
    const lateness_histogram& late() const noexcept { return late_; }

private:
    struct shard;

    // Where a timer of the window stands. From `claiming` on it counts as being delivered.
    enum class phase {
        waiting,    // for its deadline
        asked,      // for a claim to be sent
        claiming,   // for the answer
        held,       // claimed, and not delivered
        spending,   // being counted as spent before it is delivered
        delivered,  // until it is ended, or its lease is over
        ending      // its end is under way
    };
    struct near_timer;
    using queue = std::list<near_timer*>;
    struct near_timer {
        near_timer(shard& s, time_point d) : home(s), due(d) {}
        ~near_timer();
        void on_alarm();
        void wait_in(queue& q);
        void leave_queue();
        void set_trial(bool to);
        std::string take_body();

        shard& home;
        const std::string* id = nullptr;  // of the table
        time_point due;                   // when it is to be asked for, or delivered
        phase at = phase::waiting;
        bool first = false;         // no earlier attempt is open
        bool is_spent = false;      // the attempt was counted
        bool is_on_trial = false;   // a suspect that is claimed for its turn
        bool is_parked = false;     // a suspect that was given back until it has a turn
        queue* queued = nullptr;    // in which it waits for its handler,
        queue::iterator place{};    // and where
        delivery held{};            // what was claimed,
        time_point leased_until{};  // and until when nobody else can claim it
        timer alarm{call<&near_timer::alarm, &near_timer::on_alarm>};
    };
    struct own_ending {
        ending e;
        completion<bool> then;
    };
    struct shard {
        shard(engine& all, unsigned n) : home(all), number(n) {}
        void on_refill() { home.take(*this); }
        void on_flush() {
            backs_off = false;
            home.flush(*this);
        }
        void on_sweep() { home.sweep(*this); }
        bool covers(time_point due, const std::string& id) const;

        engine& home;
        unsigned number;
        epoch mine = 0;
        std::uint64_t term = 0;                    // counts what was lost, be it to ourselves
        std::optional<place> taken{};              // what is before or there is in the window
        std::optional<time_point> taking_until{};  // while a take is under way
        bool partial = false;                      // there is more before the horizon, and no room
        bool was_lowered = false;  // since the last take was asked for, the end of the window
        std::size_t claimed = 0;
        std::size_t claim_size = 500;  // so many ids in the next claim: few if bodies are large
        std::unordered_map<std::string, near_timer> near;
        std::deque<std::string> to_claim;
        std::vector<own_ending> endings;
        bool backs_off = false;  // the store could not take them: they wait for options::retry
        timer refill{call<&shard::refill, &shard::on_refill>};
        timer flusher{call<&shard::flusher, &shard::on_flush>};
        timer sweeper{call<&shard::sweeper, &shard::on_sweep>};
    };

    template <class F> auto guarded(F f);
    template <class... Answer, class F>
    auto answering(std::size_t calls, completion<Answer...> then, F f);
    template <class F, class... Answer> void contain(const F& f, Answer&&... a);

    shard& of(const std::string& id) { return *shards_[store_.shard_of(id)]; }
    std::size_t room() const noexcept;
    void arm(timer& t, std::chrono::microseconds delay);
    refusal admit(std::size_t calls, refusal fault = refusal::none, std::size_t bytes = 0);

    // shards
    void join();
    void share(std::size_t processes);
    std::size_t owned() const noexcept;
    void seek();
    void own(shard& s);
    void on_owned(shard& s, epoch e);
    void fence(shard& s);
    void lose(shard& s);
    void return_claim(token which);
    void give_back(shard& s);

    // the window
    void take(shard& s);
    void on_taken(shard& s, std::size_t limit, std::vector<place> got);
    void sweep(shard& s);
    void on_swept(shard& s, const std::vector<place>& got);
    bool enter(shard& s, const std::string& id, time_point due);
    static place place_of(const near_timer& t) { return {t.due, *t.id}; }
    void evict(shard& s);
    void on_known(shard& s, const std::string& id, time_point due);
    void on_hint(unsigned shard, const std::string& id, time_point due);
    void set_alarm(near_timer& t);
    time_point claim_time(const near_timer& t) const;
    void heed_clock();
    void set_phase(near_timer& t, phase to);
    void forget(shard& s, const std::string& id);

    // delivery
    void on_alarm(near_timer& t);
    void on_held(near_timer& t);
    void ask_for(near_timer& t);
    std::size_t claimable(const shard& s) const;
    std::vector<std::string> next_to_claim(shard& s, std::size_t most);
    claim_terms terms() const;
    bool claim(shard& s);
    void on_claims(shard& s, const std::vector<std::string>& ids, time_point asked, standing how,
                   std::vector<claimed>& got);
    static near_timer* claiming(shard& s, const std::string& id);
    void return_if_granted(const std::string& id, const claimed& c);
    void claim_later(shard& s, const std::vector<std::string>& ids);
    void resize_claims(shard& s, const std::vector<claimed>& got);
    void on_claimed(near_timer& t, claimed& c, time_point asked);
    void on_granted(near_timer& t, stored_timer& granted, time_point asked);
    bool may_deliver() const { return unstored_ < options_.slice; }
    bool is_suspect(const near_timer& t) const { return options_.attempts != 0 && !t.first; }
    bool must_wait(near_timer& t);
    void deliver_ready();
    void on_ready(near_timer& t);
    void park(near_timer& t);
    void begin_trials();
    void spend_next();
    void on_spent(shard& s, const token& which, standing how, bool is_current);
    void deliver(near_timer& t);

    // ends
    void end(own_ending e);
    void flush(shard& s);
    void on_ends(shard& s, std::vector<own_ending>& asked, standing how,
                 const std::vector<end_reply>& got);
    static bool is_claimed_again(const shard& s, const std::string& id);
    void on_ended(shard& s, own_ending& e, const end_reply& r);
    void on_put(put_result r, const place& p);
    cancel_result on_cancelled(const std::string& id, cancel_result r);
    unfinished left() const;
    void settle();
    void give_up();
    void do_nothing() {}

    timer_wheel& wheel_;
    pace pace_;
    store& store_;
    handler handler_;
    options options_;
    queue ready_;             // due, for their handlers
    queue suspects_;          // due, one by one, since an earlier attempt may have ended a process
    queue parked_;            // suspects that were given back until those have been delivered
    std::size_t trials_ = 0;  // how many suspects are claimed or being claimed for their turn
    bool is_spending_ = false;    // one of them
    std::size_t held_bytes_ = 0;  // of the bodies that were claimed and not delivered
    std::vector<std::unique_ptr<shard>> shards_;
    timer beat_{call<&engine::beat_, &engine::join>};
    timer more_{call<&engine::more_, &engine::do_nothing>};  // there is more to deliver
    timer limit_{call<&engine::limit_, &engine::give_up>};   // of `stop`
    std::size_t fair_ = 1;                                   // how many shards are our share
    std::size_t to_try_ = 0, try_next_ = 0;                  // of the shards that may be free
    std::size_t sought_ = 0;                                 // of them, asked for just now
    std::optional<std::chrono::microseconds> offset_{};      // of the store's clock to the wheel's
    std::size_t asked_ = 0, asked_bytes_ = 0;
    std::size_t releases_ = 0;     // shards being given back
    std::size_t claims_ = 0;       // that are not answered,
    std::size_t claiming_ = 0;     // and the timers in them
    std::size_t unstored_ = 0;     // ends that the store has not answered
    std::size_t first_shard_ = 0;  // whose turn it is to claim first
    bool stopping_ = false;
    std::function<void(const unfinished&)> stopped_{};
    counters count_;
    lateness_histogram late_;
    std::shared_ptr<const char> alive_ = std::make_shared<const char>('x');
};

}  // namespace detail

}  // namespace tvec::durable
