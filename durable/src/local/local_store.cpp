#include "tvec/durable/detail/local_store.hpp"

#include <type_traits>
#include <utility>

#include "job.hpp"

namespace tvec::durable::detail {

namespace {

// A job with a result type that has values for failed and unknown.
template <class Result, class Work> struct order final : job {
    order(store::completion<Result> t, Result f, Result u, Work w)
        : then(std::move(t)), failed(std::move(f)), unknown(std::move(u)), does(std::move(w)) {}

    void work(database& db) override { done = does(db); }
    void answer(outcome how) override {
        Result& r = how == outcome::done ? done : how == outcome::failed ? failed : unknown;
        if (then) then(std::move(r));
    }

    store::completion<Result> then;
    Result done{}, failed, unknown;
    Work does;
};

template <class Answer> standing accept(Answer& to, Answer from) {
    to = std::move(from);
    return standing::done;
}
template <class Answer> standing accept(Answer& to, std::optional<Answer> from) {
    return from ? accept(to, std::move(*from)) : standing::fenced;
}

// A job whose completion receives a standing and an answer.
template <class Answer, class Work> struct question final : job {
    question(store::completion<standing, Answer> t, Work w)
        : then(std::move(t)), does(std::move(w)) {}

    void work(database& db) override { found = accept(all, does(db)); }
    void answer(outcome how) override {
        if (!then) return;
        if (how == outcome::done)
            then(found, std::move(all));
        else
            then(standing::unknown, {});
    }

    store::completion<standing, Answer> then;
    standing found = standing::unknown;
    Answer all{};
    Work does;
};

template <class Result, class Work>
std::unique_ptr<job> job_of(store::completion<Result> then, std::type_identity_t<Result> failed,
                            std::type_identity_t<Result> unknown, Work work) {
    return std::make_unique<order<Result, Work>>(std::move(then), std::move(failed),
                                                 std::move(unknown), std::move(work));
}
template <class Answer, class Work>
std::unique_ptr<job> job_of(store::completion<standing, Answer> then, Work work) {
    return std::make_unique<question<Answer, Work>>(std::move(then), std::move(work));
}

}  // namespace

void local_store::put(std::vector<record> timers, existing how,
                      completion<std::vector<put_result>> then) {
    const std::vector<put_result> failed(timers.size(), put_result::failed);
    const std::vector<put_result> unknown(timers.size(), put_result::unknown);
    post(job_of(std::move(then), failed, unknown,
                [timers = std::move(timers), how](database& db) { return db.put(timers, how); }));
}

void local_store::cancel(std::string id, completion<cancel_result> then) {
    post(job_of(std::move(then), cancel_result::failed, cancel_result::unknown,
                [id = std::move(id)](database& db) { return db.cancel(id); }));
}

void local_store::end(unsigned, std::vector<ending> endings,
                      completion<standing, std::vector<end_reply>> then) {
    post(job_of(std::move(then),
                [endings = std::move(endings)](database& db) { return db.end(endings); }));
}

void local_store::find(std::string id, completion<standing, std::optional<stored_timer>> then) {
    post(job_of(std::move(then), [id = std::move(id)](database& db) { return db.find(id); }));
}

void local_store::list(timer_set set, place after, std::size_t limit,
                       completion<standing, std::vector<stored_timer>> then) {
    post(job_of(std::move(then), [set, after = std::move(after), limit](database& db) {
        return db.list(set, after, limit);
    }));
}

void local_store::count(completion<standing, totals> then) {
    post(job_of(std::move(then), [](database& db) { return db.count(); }));
}

void local_store::revive(std::string id, time_point due, completion<revive_result> then) {
    post(job_of(std::move(then), revive_result::failed, revive_result::unknown,
                [id = std::move(id), due](database& db) { return db.revive(id, due); }));
}

void local_store::join(duration lease, completion<standing, std::size_t> then) {
    post(job_of(std::move(then), [lease](database& db) { return db.join(lease); }));
}

void local_store::own(unsigned shard, duration lease, completion<standing, epoch> then) {
    post(job_of(std::move(then), [shard, lease](database& db) { return db.own(shard, lease); }));
}

void local_store::release(unsigned shard, epoch mine, completion<standing> then) {
    post(job_of(std::move(then), standing::unknown, standing::unknown, [shard, mine](database& db) {
        db.release(shard, mine);
        return standing::done;
    }));
}

void local_store::take(unsigned shard, epoch mine, place after, time_point until, std::size_t limit,
                       completion<standing, std::vector<place>> then) {
    post(job_of(std::move(then),
                [shard, mine, after = std::move(after), until, limit](database& db) {
                    return db.take(shard, mine, after, until, limit);
                }));
}

void local_store::claim(unsigned shard, epoch mine, claim_terms terms, std::vector<std::string> ids,
                        completion<standing, std::vector<claimed>> then) {
    post(job_of(std::move(then), [shard, mine, terms, ids = std::move(ids)](database& db) {
        return db.claim(shard, mine, terms, ids);
    }));
}

void local_store::spend(unsigned shard, epoch mine, token t, completion<standing, bool> then) {
    post(job_of(std::move(then), [shard, mine, t = std::move(t)](database& db) {
        return db.spend(shard, mine, t);
    }));
}

}  // namespace tvec::durable::detail
