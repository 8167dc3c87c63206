// Parses a request to a text_port: the first line of a request of HTTP/1.0. Takes any bytes.
#pragma once

#include <string_view>

namespace example {

struct http_request {
    enum kind { get, another_method, no_http };
    kind what;
    std::string_view path;  // of a get: part of the bytes that were read
};

// Returns whether a request is complete: an empty line ends it.
inline bool is_whole_request(std::string_view bytes) {
    return bytes.find("\r\n\r\n") != bytes.npos || bytes.find("\n\n") != bytes.npos;
}

inline http_request read_request(std::string_view bytes) {
    const std::string_view line = bytes.substr(0, bytes.find_first_of("\r\n"));
    const std::size_t method_end = line.find(' ');
    const std::size_t path_end = line.rfind(" HTTP/1.");
    if (path_end == line.npos || method_end >= path_end) return {http_request::no_http, {}};
    if (line.substr(0, method_end) != "GET") return {http_request::another_method, {}};
    return {http_request::get, line.substr(method_end + 1, path_end - method_end - 1)};
}

}  // namespace example
