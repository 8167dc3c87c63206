// The output of the commands: lines for people, or JSON for scripts.
#pragma once

#include <coroutine>
#include <functional>
#include <string>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "tvec/durable/store.hpp"

namespace timers_tool {

// The output of a command, on its way to whoever has asked.
class output {
public:
    std::string text;                                                  // not yet taken
    std::function<bool(output&)> take = [](output&) { return true; };  // false: `taken` follows

    // Awaits that the text is taken, so that a long list takes little memory.
    auto flush() {
        struct awaiter {
            bool await_ready() { return out.take(out); }
            void await_suspend(std::coroutine_handle<> waits) noexcept { out.waits_ = waits; }
            void await_resume() const noexcept {}
            output& out;
        };
        return awaiter{*this};
    }

    // Resumes the coroutine that awaits it, if one does.
    void taken() {
        if (waits_) std::exchange(waits_, nullptr).resume();
    }

private:
    std::coroutine_handle<> waits_;
};

// Returns bytes as printable ASCII: any other byte, and a backslash, is shown by its number.
std::string shown(const std::string& bytes);
// Returns a deadline as ISO 8601, in UTC.
std::string shown(tvec::durable::time_point t);

// Enters bytes into a JSON object: as `name` if they are UTF-8, and otherwise as NAME_base64.
void enter(nlohmann::json& object, const std::string& name, const std::string& bytes);

// Returns an object in one line of ASCII: a terminal acts on nothing in it.
std::string json_text(const nlohmann::json& object);

// Returns what is known of a timer: as JSON with stable names, or as a line of words with tabs
// between them. `is_dead` adds the reason even if none is known.
nlohmann::json described(const tvec::durable::stored_timer& t, bool is_dead);
std::string line_of(const tvec::durable::stored_timer& t);

}  // namespace timers_tool
