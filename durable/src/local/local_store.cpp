#include "tvec/durable/detail/local_store.hpp"

#include <utility>

#include "job.hpp"

namespace tvec::durable::detail {

namespace {

// Set the result of a job that was not done, or may not have been.
template <class Result> void miss(Result& r, const auto& /*operation*/, fate how) {
    r = how == fate::failed ? Result::failed : Result::unknown;
}
template <class Result> void miss(std::vector<Result>& all, const auto& o, fate how) {
    all.resize(o.timers.size());
    for (Result& r : all) miss(r, o, how);
}
void miss(standing& s, const auto& /*operation*/, fate /*how*/) { s = standing::unknown; }

template <class Answer> standing accept(Answer& to, Answer from) {
    to = std::move(from);
    return standing::done;
}
template <class Answer> standing accept(Answer& to, std::optional<Answer> from) {
    return from ? accept(to, std::move(*from)) : standing::fenced;
}

template <class Operation, class Then = decltype(Operation::then)> struct job_of;

// A job whose completion receives a result.
template <class Operation, class Result> struct job_of<Operation, completion<Result>> final : job {
    explicit job_of(Operation o) : asked(std::move(o)) {}
    void work(database& db) override { result = db.perform(asked); }
    void answer(fate how) override {
        if (how != fate::done) miss(result, asked, how);
        if (asked.then) asked.then(std::move(result));
    }

    Operation asked;
    Result result{};
};

// A job whose completion receives a standing and an answer.
template <class Operation, class Answer>
struct job_of<Operation, completion<standing, Answer>> final : job {
    explicit job_of(Operation o) : asked(std::move(o)) {}
    void work(database& db) override { found = accept(all, db.perform(asked)); }
    void answer(fate how) override {
        if (!asked.then) return;
        if (how == fate::done)
            asked.then(found, std::move(all));
        else
            asked.then(standing::unknown, {});
    }

    Operation asked;
    standing found = standing::unknown;
    Answer all{};
};

}  // namespace

void local_store::submit(operation o) {
    const auto begin = [this]<class Operation>(Operation& asked) {
        enqueue(std::make_unique<job_of<Operation>>(std::move(asked)));
    };
    std::visit(begin, o);
}

}  // namespace tvec::durable::detail
