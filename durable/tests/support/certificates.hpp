// Certificates for tests of TLS.
#pragma once

#include <string>

#include "support/redis_server.hpp"

namespace support {

// Creates a self-signed certificate for that host, and its key.
inline bool certify(const std::string& folder, const std::string& who, const std::string& host) {
    return redis_server::run_to_its_end(
        {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=" + who, "-addext", "subjectAltName=" + host,
         "-keyout", folder + "/" + who + ".key", "-out", folder + "/" + who + ".crt"});
}

}  // namespace support
