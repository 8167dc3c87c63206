// An operation of a store in this process: the work, and its answer.
#pragma once

#include <optional>
#include <type_traits>
#include <variant>

#include "tvec/durable/store.hpp"

namespace tvec::durable::detail {

// The answer to an operation: nothing if its owner is asked for, and another process owns the
// shard.
template <class Operation, class Then = decltype(Operation::then)> struct answer_to;
template <class Operation, class Result> struct answer_to<Operation, completion<Result>> {
    using type = Result;
};
template <class Operation, class Answer> struct answer_to<Operation, completion<standing, Answer>> {
    static constexpr bool is_of_owner = requires(Operation o) { o.mine; };
    using type = std::conditional_t<is_of_owner, std::optional<Answer>, Answer>;
};

// Performs an operation at once, and returns the answer. A failure throws.
template <class Operation> class performer {
public:
    virtual ~performer() = default;
    virtual typename answer_to<Operation>::type perform(const Operation& o) = 0;
};

// Performs the operations of a store.
template <class Any> class performer_of_any;
template <class... Operation>
class performer_of_any<std::variant<Operation...>> : public performer<Operation>... {
public:
    using performer<Operation>::perform...;
};
using database = performer_of_any<operation>;

// The fate of a job. If it is `unknown`, the work may have been done or not.
enum class fate { done, failed, unknown };

// The thread of the loop makes, answers and destroys a job. Another thread may do the work.
struct job {
    virtual ~job() = default;
    virtual void work(database& db) = 0;
    virtual void answer(fate how) = 0;
};

}  // namespace tvec::durable::detail
