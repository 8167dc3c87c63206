// Fuzzes the metrics port's request parser, against a reader that checks each byte.
#include <cstdint>
#include <cstring>

#include "../../../servers/http_request.hpp"
#include "support/divergence.hpp"

namespace {

using example::http_request;
using support::expect;

std::size_t find_whole(std::string_view bytes) {
    for (std::size_t end = 2; end <= bytes.size(); ++end) {
        const std::string_view before = bytes.substr(0, end);
        if (before.ends_with("\n\n") || before.ends_with("\r\n\r\n")) return end;
    }
    return bytes.npos;
}

http_request read_slowly(std::string_view bytes) {
    std::size_t length = 0, first_space = bytes.npos, version = bytes.npos;
    for (; length < bytes.size() && bytes[length] != '\r' && bytes[length] != '\n'; ++length) {
        if (bytes[length] == ' ' && first_space == bytes.npos) first_space = length;
    }
    for (std::size_t i = 0; i + 8 <= length; ++i)
        if (std::memcmp(bytes.data() + i, " HTTP/1.", 8) == 0) version = i;
    if (version == bytes.npos || version == first_space) return {http_request::no_http, {}};
    if (first_space != 3 || std::memcmp(bytes.data(), "GET", 3) != 0)
        return {http_request::another_method, {}};
    return {http_request::get, bytes.substr(4, version - 4)};
}

bool same(const http_request& a, const http_request& b) {
    return a.what == b.what && a.path == b.path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const http_request asked = example::read_request(bytes);
    expect(same(asked, read_slowly(bytes)), "another request: ", asked.what);
    expect(asked.path.find_first_of("\r\n") == asked.path.npos, "a path of two lines");
    const std::size_t whole = find_whole(bytes);
    expect(example::is_whole_request(bytes) == (whole != bytes.npos), "whole at ", whole);
    // Bytes after a complete request change nothing, however they arrive.
    if (whole != bytes.npos)
        expect(same(asked, example::read_request(bytes.substr(0, whole))), "its rest counts");
    return 0;
}
