// What the answer of a hook says. It is from anybody: the hook, or a program in its place.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "sink.hpp"

namespace timers_tool {

// The rest of a longer answer says nothing.
constexpr std::size_t largest_answer = 65'536;

long status_of(CURL* easy);

// Returns true if the answer has no body by its status, and one by its headers: the next request on
// the connection would take those bytes for its answer.
bool has_stray_body(CURL* easy);

// Returns for how long the answer asks to wait, if it does.
std::optional<std::chrono::seconds> wait_of(CURL* easy);

// Returns the status, and the first line of the body, for people.
std::string text_of(CURL* easy, const std::string& body);

// Returns what a request that ended in this way means for its delivery.
sink_answer meaning_of(CURLcode how, CURL* easy, const std::string& body);

}  // namespace timers_tool
