// Requests of one kind are sent together, those about one id in their order, and each is answered
// once.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../src/link/coalescer.hpp"
#include "support/check.hpp"

using namespace tvec::durable;
using detail::batch, detail::coalescer, detail::fate_at_server, detail::slot;

TestSuite(durable_coalescer, .timeout = 60);

namespace {

// Items are letters. The server answers each with the place that the item has among all.
struct wire {
    using input = std::size_t;
    using words = std::string;
    using head = std::string;
    enum class kind { put, end };
    static constexpr std::size_t kinds = 2, together = 3, bytes_together = 10;
    struct sent_batch {
        std::size_t group;
        batch<words, input> what;
    };

    std::string begin(std::size_t, kind k, const head& h) const {
        return (k == kind::put ? "put " : "end ") + h;
    }
    static std::size_t weight(const std::string& s) { return s.size(); }
    void send(std::size_t group, kind, const batch<words, input>& b) { sent.push_back({group, b}); }
    void touch(std::size_t bytes) { waiting = bytes; }
    void answer(const detail::request_ptr<input>& q) { empty.push_back(q); }

    void reply() {
        for (const sent_batch& b : std::exchange(sent, {}))
            for (const slot<input>& s : b.what.slots) {
                s.whose->read(s.part, ++items);
                s.whose->end_part();
            }
    }
    std::vector<std::string> all() const {
        std::vector<std::string> texts;
        for (const sent_batch& b : sent) texts.push_back(b.what.words);
        return texts;
    }

    std::vector<sent_batch> sent{};
    std::vector<detail::request_ptr<input>> empty{};
    std::size_t waiting = 0, items = 0;
};

using strings = std::vector<std::string>;
using places = std::vector<std::size_t>;
constexpr auto a_put = wire::kind::put, an_end = wire::kind::end;

struct world {
    void add(std::size_t group, wire::kind k, const std::string& head, const std::string& ids,
             completion<standing, places> then = {}) {
        const auto read = [](places& all, std::size_t part, std::size_t n) { all[part] = n; };
        const auto q = requests.asked(std::move(then), read, ids.size(), places(ids.size()));
        for (std::size_t i = 0; i < ids.size(); ++i)
            requests.add(group, k, head, ids.substr(i, 1), {q, i}) += ids[i];
        requests.wait_for(q);
    }

    wire server{};
    coalescer<wire> requests{server, 2};
};

}  // namespace

Test(durable_coalescer, items_of_one_kind_are_sent_together) {
    world w;
    w.add(0, a_put, "", "a");
    w.add(0, an_end, "", "b");
    w.add(0, a_put, "", "c");
    CHECK_EQ(w.server.waiting, 11U);
    CHECK(w.server.sent.empty());
    w.requests.close(0);
    CHECK((w.server.all() == strings{"put ac", "end b"}));
    CHECK_EQ(w.requests.waiting(), 0U);
    w.requests.close(0);
    CHECK_EQ(w.server.sent.size(), 2U);
}

Test(durable_coalescer, an_id_has_one_request_at_a_time) {
    world w;
    w.add(0, an_end, "", "a");
    w.add(0, a_put, "", "b");
    w.add(0, a_put, "", "a");
    CHECK((w.server.all() == strings{"put b", "end a"}));
    w.add(0, a_put, "", "a");
    CHECK((w.server.all() == strings{"put b", "end a", "put a"}));
}

Test(durable_coalescer, another_head_begins_another_batch) {
    world w;
    w.add(0, a_put, "x", "a");
    w.add(0, a_put, "y", "b");
    w.add(0, a_put, "y", "c");
    w.requests.close(0);
    CHECK((w.server.all() == strings{"put xa", "put ybc"}));
}

Test(durable_coalescer, a_full_batch_is_sent) {
    world w;
    w.add(0, a_put, "", "abcd");
    CHECK((w.server.all() == strings{"put abc"}));
    w.add(0, a_put, "long!!", "e");
    w.add(0, a_put, "long!!", "f");
    CHECK((w.server.all() == strings{"put abc", "put d", "put long!!e"}));
}

Test(durable_coalescer, closing_a_group_sends_only_its_requests) {
    world w;
    w.add(0, a_put, "", "a");
    w.add(1, a_put, "", "a");
    w.requests.close(1);
    REQUIRE_EQ(w.server.sent.size(), 1U);
    CHECK_EQ(w.server.sent[0].group, 1U);
    CHECK_EQ(w.requests.waiting(), 5U);
}

Test(durable_coalescer, a_batch_that_stays_keeps_its_ids) {
    world w;
    w.add(0, a_put, "", "a");
    w.add(0, an_end, "", "b");
    w.requests.close(0, an_end);
    CHECK((w.server.all() == strings{"put a"}));
    CHECK(!w.requests.is_empty(0, an_end));
    w.add(0, a_put, "", "b");
    CHECK((w.server.all() == strings{"put a", "end b"}));
}

Test(durable_coalescer, a_request_is_answered_after_its_last_part) {
    world w;
    std::optional<places> got;
    w.add(0, a_put, "", "abcd", [&](standing, const places& p) { got = p; });
    w.server.reply();
    CHECK(!got);
    CHECK_EQ(w.requests.unanswered(), 1U);
    w.requests.close(0);
    w.server.reply();
    CHECK((got == places{1, 2, 3, 4}));
    CHECK_EQ(w.requests.unanswered(), 0U);
    CHECK_EQ(w.requests.answered(), 1U);
}

Test(durable_coalescer, the_loop_answers_requests_without_parts) {
    world w;
    std::optional<places> got;
    w.add(0, a_put, "", "", [&](standing, const places& p) { got = p; });
    CHECK(!got);
    w.server.empty.front()->end();
    CHECK((got == places{}));
}

Test(durable_coalescer, an_answer_with_a_missing_part_is_unknown) {
    world w;
    standing how = standing::done;
    places got{1};
    const auto note = [&](standing s, const places& p) { how = s, got = p; };
    w.add(0, a_put, "", "ab", note);
    w.requests.close(0);
    const auto slots = std::exchange(w.server.sent, {})[0].what.slots;
    slots[0].miss(fate_at_server::lost);
    slots[1].whose->read(1, 7);
    slots[1].whose->end_part();
    CHECK(how == standing::unknown);
    CHECK(got.empty());
    w.add(0, a_put, "", "ab", note);
    w.requests.close(0);
    for (const auto& s : w.server.sent[0].what.slots) {
        s.whose->fence();
        s.miss(fate_at_server::replied);
    }
    CHECK(how == standing::fenced);
}

Test(durable_coalescer, a_result_that_was_refused_has_failed) {
    world w;
    const auto read = [](std::size_t) { return put_result::stored; };
    std::vector<put_result> got;
    const auto note = [&](std::vector<put_result> all) { got = std::move(all); };
    const auto q = w.requests.asked(completion<std::vector<put_result>>(note), read, 3);
    slot<std::size_t>{q, 0}.miss(fate_at_server::refused);
    slot<std::size_t>{q, 1}.miss(fate_at_server::lost);
    q->read(2, 0);
    q->end_part();
    using enum put_result;
    CHECK((got == std::vector{failed, unknown, stored}));
}

// The server does the items in the order in which it gets them.
Test(durable_coalescer, requests_about_an_id_are_done_in_order) {
    std::mt19937 random(1);
    const auto below = [&](unsigned n) { return static_cast<unsigned>(random()) % n; };
    world w;
    std::map<std::string, unsigned> last;
    unsigned asked = 0, told = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::string> ids(below(5));
        for (std::string& id : ids) id = std::to_string(below(8));
        const std::size_t group = below(2);
        const auto kind = below(2) == 0 ? a_put : an_end;
        const std::string head(below(2), 'h');
        const auto read = [&, ids, group, number = ++asked](bool&, std::size_t part, std::size_t) {
            unsigned& before = last[std::to_string(group) + ids[part]];
            CHECK(before <= number);
            before = number;
        };
        const completion<standing, bool> then = [&](standing, bool) { ++told; };
        const auto q = w.requests.asked(then, read, ids.size());
        for (std::size_t n = 0; n < ids.size(); ++n)
            w.requests.add(group, kind, head, ids[n], {q, n}) += ids[n];
        w.requests.wait_for(q);
        if (below(8) == 0) w.requests.close(below(2));
        if (below(8) == 0) w.requests.close(below(2), an_end);
        if (below(4) == 0) w.server.reply();
    }
    for (const std::size_t group : {0U, 1U}) w.requests.close(group);
    w.server.reply();
    CHECK_EQ(told + w.server.empty.size(), asked);
}
