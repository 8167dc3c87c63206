// Coalescing: requests of one kind wait together, and are sent to the server as one.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "request.hpp"

namespace tvec::durable::detail {

// The part of a request to which an item of a batch belongs.
template <class Input> struct slot {
    request_ptr<Input> whose;
    std::size_t part = 0;

    void miss(fate_at_server how) const {
        whose->miss(part, how);
        whose->end_part();
    }
};

// Words for the server that say the same about many items, and the slots of these.
template <class Words, class Input> struct batch {
    Words words;
    std::vector<slot<Input>> slots{};
};

// The requests that wait to be sent, in a batch of each kind and group. A batch may overtake
// another one of its group, but not with requests for the same id: nothing is asked about an id
// twice before all has been sent. A `Wire` has
//
//  * types: `input`, from which the part of an answer is read; `words`; `head`, what all items of a
//    batch have in common; `kind`, an enumeration of `kinds` values
//  * `together` and `bytes_together`: the most items in a batch, and their bytes, about
//  * `begin(group, kind, head)`, which returns words without items; `weight(words)`, their bytes
//  * `send(group, kind, batch)`, which asks the server, and has each slot read or missed, and ended
//  * `touch(bytes)`, which notes how many bytes wait, so the loop wakes up once it may send them;
//    `answer(q)`, which calls `q->end()` from the loop
template <class Wire> class coalescer {
public:
    using input = typename Wire::input;
    using kind = typename Wire::kind;
    using head = typename Wire::head;
    using words = typename Wire::words;

    coalescer(Wire& w, std::size_t groups) : wire_(w), groups_(groups) {}

    std::size_t unanswered() const noexcept { return count_.unanswered; }
    std::size_t answered() const noexcept { return count_.answered; }
    // Has an answer not count, because the completion has asked for the rest of it.
    void go_on_answering() noexcept { --count_.answered; }

    // Makes a request. `read` reads each part of the answer, which begins as `all`.
    template <class Answer, class Read>
    request_ptr<input> asked(completion<standing, Answer> then, Read read, std::size_t parts = 1,
                             std::type_identity_t<Answer> all = {}) {
        return std::make_shared<request_of<input, Answer, Read>>(count_, std::move(then), read,
                                                                 parts, std::move(all));
    }
    // Makes a request with many results, of which `read` returns each, or with one.
    template <class Result, class Read>
    request_ptr<input> asked(completion<std::vector<Result>> then, Read read, std::size_t parts) {
        return std::make_shared<results_of<input, Result, Read>>(count_, std::move(then), read,
                                                                 parts);
    }
    template <class Result, class Read>
    request_ptr<input> asked(completion<Result> then, Read read) {
        const auto first = [then = std::move(then)](const std::vector<Result>& all) {
            if (then) then(all.front());
        };
        return asked(completion<std::vector<Result>>(first), read, 1);
    }

    // Makes room for an item about `id`, and returns the words to which it is to be added. Sends
    // the group first if the batch is full or has another head, or if a batch may hold the id.
    words& add(std::size_t group, kind k, const head& h, std::string_view id, slot<input> s) {
        waiting_of_group& g = groups_[group];
        std::optional<waiting_batch>& b = g.batches[static_cast<std::size_t>(k)];
        const std::size_t hash = std::hash<std::string_view>{}(id);
        if ((b && (b->first != h || is_full(b->second))) || g.ids.contains(hash)) close(group);
        if (!b) b.emplace(h, batch<words, input>{wire_.begin(group, k, h)});
        g.ids.insert(hash);
        b->second.slots.push_back(std::move(s));
        return b->second.words;
    }
    bool is_empty(std::size_t group, kind k) const {
        return !groups_[group].batches[static_cast<std::size_t>(k)];
    }
    // Has the request answered once its parts have come, which are in batches. Without parts that
    // is at once.
    void wait_for(const request_ptr<input>& q) {
        q->has_parts() ? wire_.touch(waiting()) : wire_.answer(q);
    }

    // Returns the bytes in batches, about.
    std::size_t waiting() const {
        std::size_t bytes = 0;
        for (const waiting_of_group& g : groups_)
            for (const std::optional<waiting_batch>& b : g.batches)
                if (b) bytes += wire_.weight(b->second.words);
        return bytes;
    }
    // Sends a batch.
    void send(std::size_t group, kind k) {
        const auto b = std::exchange(groups_[group].batches[static_cast<std::size_t>(k)], {});
        if (b) wire_.send(group, k, b->second);
    }
    // Sends all batches of a group, or all but one.
    void close(std::size_t group, std::optional<kind> but = std::nullopt) {
        for (std::size_t k = 0; k < Wire::kinds; ++k)
            if (static_cast<kind>(k) != but) send(group, static_cast<kind>(k));
        auto& ids = groups_[group].ids;
        if (!ids.empty() && (!but || is_empty(group, *but))) ids.clear();
    }

private:
    using waiting_batch = std::pair<head, batch<words, input>>;

    struct waiting_of_group {
        std::array<std::optional<waiting_batch>, Wire::kinds> batches{};
        std::unordered_set<std::size_t> ids{};  // hashes of the ids in the batches
    };

    bool is_full(const batch<words, input>& b) const {
        return b.slots.size() >= Wire::together || wire_.weight(b.words) >= Wire::bytes_together;
    }

    Wire& wire_;
    std::vector<waiting_of_group> groups_;
    tally count_{};
};

}  // namespace tvec::durable::detail
