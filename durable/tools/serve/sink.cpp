#include "sink.hpp"

#include <stdexcept>

#include "../../support/open_store.hpp"

namespace timers_tool {

std::string fault_of_place(const std::string& to, const std::string& what) {
    const auto colon = to.find(':');
    return "--to " + (colon == to.npos ? to : to.substr(0, colon) + ":...") + ": " + what;
}

std::unique_ptr<sink> open_sink(loop& in, const settings& o, sink::completion answered) {
    if (o.to.starts_with("http://") || o.to.starts_with("unix:"))
        return open_hook(in, o, std::move(answered));
    if (!o.to.starts_with("stream:") && o.to != "table")
        throw std::runtime_error(fault_of_place(
            o.to, "expected stream:NAME, table, http://127.0.0.1:PORT/PATH or unix:SOCKET:/PATH"));
    if (!example::is_server(o.store))
        throw std::runtime_error(fault_of_place(
            o.to, "workers end its deliveries in the store, which a file cannot have: use http:// "
                  "or unix:, or a store on a server"));
    if (o.to.starts_with("stream:")) {
#ifdef TVEC_HAS_STREAM
        return open_stream(in, o, std::move(answered));
#else
        throw std::runtime_error(fault_of_place(o.to, "built shared, or without Redis"));
#endif
    }
#ifdef TVEC_HAS_TABLE
    return open_table(in, o, std::move(answered));
#else
    throw std::runtime_error("--to table: built shared, or without PostgreSQL");
#endif
}

}  // namespace timers_tool
