// The view of the commands on the timers: operations of a store that a coroutine awaits.
#pragma once

#include <coroutine>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "tvec/durable/store.hpp"

namespace timers_tool {

namespace detail {

// The answer of an operation: that of its only argument, or a tuple.
template <class Operation> struct answer_of;
template <class Operation>
requires requires(Operation o) { o.then; }
struct answer_of<Operation> {
    template <class... Answer>
    static std::tuple<Answer...> read(tvec::durable::completion<Answer...> Operation::*);
    using type = decltype(read(&Operation::then));
};

// Waits for the answers of operations that are submitted together. A coroutine that ends before
// they have come is not resumed.
template <class Operation> class answers {
public:
    using answer = typename answer_of<Operation>::type;
    using submitter = std::function<void(tvec::durable::operation)>;

    answers(const submitter& submit, std::vector<Operation> asked)
        : submit_(submit), asked_(std::move(asked)), shared_(std::make_shared<state>()) {}
    answers(const answers&) = delete;
    answers& operator=(const answers&) = delete;
    ~answers() { shared_->waits = nullptr; }

    bool await_ready() const noexcept { return asked_.empty(); }
    void await_suspend(std::coroutine_handle<> waits) {
        const auto shared = shared_;
        shared->missing = asked_.size();
        shared->got.resize(asked_.size());
        shared->waits = waits;
        for (std::size_t i = 0; i < asked_.size(); ++i) {
            asked_[i].then = [shared, i](auto... a) {
                shared->got[i] = answer(std::move(a)...);
                if (--shared->missing == 0 && shared->waits) shared->waits.resume();
            };
            submit_(std::move(asked_[i]));  // the completion is called later, by the store's run
        }
    }
    std::vector<answer> await_resume() { return std::move(shared_->got); }

private:
    struct state {
        std::size_t missing = 0;
        std::vector<answer> got;
        std::coroutine_handle<> waits;
    };

    const submitter& submit_;
    std::vector<Operation> asked_;
    std::shared_ptr<state> shared_;
};

}  // namespace detail

// The questions of the commands to a store. It outlives them.
class view {
public:
    using submitter = std::function<void(tvec::durable::operation)>;

    // `submit` begins an operation: the store does by itself, or `timers` that are on it.
    view(tvec::durable::store& s, submitter submit) : store_(s), submit_(std::move(submit)) {}

    // Submits all of them, and awaits the answers, which are in their order.
    template <class Operation> auto ask(std::vector<Operation> all) {
        return detail::answers<Operation>(submit_, std::move(all));
    }

    const tvec::durable::store& store() const { return store_; }
    [[noreturn]] void fail() const {
        throw std::runtime_error("the store could not: " + store_.last_failure());
    }

private:
    tvec::durable::store& store_;
    submitter submit_;
};

}  // namespace timers_tool
