#include "bulk.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

namespace tvec::durable::detail {

namespace {

// Bodies in a page, about.
constexpr std::size_t page_bytes = 1'048'576;

// Lives until its last completion is called or dropped.
class bulk : public std::enable_shared_from_this<bulk> {
public:
    bulk(engine_state& all, timer_set set, std::string prefix, operation_on each,
         completion<standing, std::uint64_t> then)
        : all_(all), set_(set), prefix_(std::move(prefix)), each_(std::move(each)),
          then_(std::move(then)) {}

    void ask() {
        const auto on_page = [self = shared_from_this()](standing how,
                                                         const std::vector<stored_timer>& page) {
            self->on_page(how, page);
        };
        all_.storage.submit(
            operations::list{set_, after_, page_size_, prefix_, all_.guarded(on_page)});
    }

private:
    void on_page(standing how, const std::vector<stored_timer>& page) {
        if (how != standing::done || all_.is_stopping) how_ = standing::unknown;
        if (how_ != standing::done || page.empty()) return then_(how_, changed_);
        is_last_ = page.size() < page_size_;
        after_ = {page.back().due, page.back().id};
        fit(page);
        in_flight_ = page.size();
        for (const stored_timer& t : page)
            each_(t.id, [self = shared_from_this()](standing each, bool has_changed) {
                self->on_each(each, has_changed);
            });
    }

    // Pages are smaller if bodies are large.
    void fit(const std::vector<stored_timer>& page) {
        std::size_t bytes = 0;
        for (const stored_timer& t : page) bytes += t.body.size();
        const bool is_large = bytes > page_bytes;
        page_size_ = is_large ? std::max<std::size_t>(page.size() / 2, 1)
                              : std::min(2 * page_size_, batch_size);
    }

    void on_each(standing how, bool has_changed) {
        assert(in_flight_ > 0 && "every operation is answered once");
        changed_ += has_changed && how == standing::done;
        if (how != standing::done) how_ = how;
        if (--in_flight_ != 0) return;
        if (how_ != standing::done || is_last_) return then_(how_, changed_);
        ask();
    }

    engine_state& all_;
    const timer_set set_;
    const std::string prefix_;
    const operation_on each_;
    const completion<standing, std::uint64_t> then_;
    place after_{};
    std::size_t page_size_ = 32;
    bool is_last_ = false;
    std::size_t in_flight_ = 0;
    std::uint64_t changed_ = 0;
    standing how_ = standing::done;
};

}  // namespace

void do_for_all(engine_state& all, timer_set set, std::string prefix, operation_on each,
                completion<standing, std::uint64_t> then) {
    std::make_shared<bulk>(all, set, std::move(prefix), std::move(each), std::move(then))->ask();
}

}  // namespace tvec::durable::detail
