#include "tls_session.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <system_error>

namespace tvec::durable::redis {

namespace {

[[noreturn]] void fail(const std::string& tried) {
    ERR_clear_error();
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            "redis_store: TLS: " + tried);
}

void use_files(SSL_CTX* c, const redis_tls& how) {
    const bool is_trusted = how.ca_file.empty()
                                ? SSL_CTX_set_default_verify_paths(c) == 1
                                : SSL_CTX_load_verify_locations(c, how.ca_file.c_str(), nullptr);
    if (!is_trusted) fail("no certificates of authorities in " + how.ca_file);
    if (how.cert_file.empty()) return;
    if (SSL_CTX_use_certificate_chain_file(c, how.cert_file.c_str()) != 1)
        fail("no certificate in " + how.cert_file);
    if (SSL_CTX_use_PrivateKey_file(c, how.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(c) != 1)
        fail("no key in " + how.key_file + " that belongs to " + how.cert_file);
}

bool is_address(const std::string& host) {
    in6_addr a{};
    return inet_pton(AF_INET, host.c_str(), &a) == 1 || inet_pton(AF_INET6, host.c_str(), &a) == 1;
}

// Requires a certificate for this host.
void expect(SSL* s, const std::string& host) {
    const bool is_set =
        is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s), host.c_str()) == 1
                         : SSL_set1_host(s, host.c_str()) == 1 &&
                               SSL_ctrl(s, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                        const_cast<char*>(host.c_str())) == 1;
    if (!is_set) fail("no host " + host);
}

}  // namespace

void tls_session::deleter::operator()(SSL_CTX* c) const noexcept { SSL_CTX_free(c); }
void tls_session::deleter::operator()(SSL* s) const noexcept { SSL_free(s); }

tls_session::tls_session(const redis_tls& how, const std::string& host)
    : context_(SSL_CTX_new(TLS_client_method())) {
    if (!context_) fail("no context");
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    use_files(context_.get(), how);
    session_.reset(SSL_new(context_.get()));
    if (!session_) fail("no session");
    expect(session_.get(), host);
    SSL_set_bio(session_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(session_.get());
    static_cast<void>(is_fine(SSL_do_handshake(session_.get()), "the handshake"));
}

// Returns true if a call worked, or waits for the other side.
bool tls_session::is_fine(int result, const char* tried) {
    const int why = SSL_get_error(session_.get(), result);
    if (why == SSL_ERROR_NONE || why == SSL_ERROR_WANT_READ) return true;
    const char* reason = ERR_reason_error_string(ERR_get_error());
    const long doubt = SSL_get_verify_result(session_.get());
    failure_ = std::string("TLS: ") + tried + ": ";
    if (why == SSL_ERROR_ZERO_RETURN)
        failure_ += "it was ended";
    else if (doubt != X509_V_OK)
        failure_ += X509_verify_cert_error_string(doubt);
    else
        failure_ += reason == nullptr ? "failed" : reason;
    ERR_clear_error();
    return false;
}

bool tls_session::receive(std::string_view sent, std::string& plain) {
    BIO_write(SSL_get_rbio(session_.get()), sent.data(), static_cast<int>(sent.size()));
    if (!is_established() && !is_fine(SSL_do_handshake(session_.get()), "the handshake"))
        return false;
    if (!is_established()) return true;
    char part[16 * 1024];
    for (;;) {
        const int n = SSL_read(session_.get(), part, sizeof part);
        if (n <= 0) return is_fine(n, "reading");
        plain.append(part, static_cast<std::size_t>(n));
    }
}

bool tls_session::say(std::string_view plain) {
    if (plain.empty()) return true;
    return is_fine(SSL_write(session_.get(), plain.data(), static_cast<int>(plain.size())),
                   "writing");
}

std::string tls_session::to_send() {
    BIO* const out = SSL_get_wbio(session_.get());
    std::string bytes(BIO_ctrl_pending(out), '\0');
    if (!bytes.empty()) BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

bool tls_session::is_established() const { return SSL_is_init_finished(session_.get()) == 1; }

}  // namespace tvec::durable::redis
