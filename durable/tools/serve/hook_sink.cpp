// Deliveries as HTTP requests to a hook on this machine.
#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "from_c.hpp"
#include "hook_answer.hpp"
#include "hook_queue.hpp"
#include "sink.hpp"

namespace timers_tool {

namespace {

using namespace tvec::durable;

struct hook_address {
    std::string url, socket;
};

// Reads http://127.0.0.1:PORT/PATH, or unix:SOCKET:/PATH.
hook_address hook_at(const std::string& to) {
    if (to.starts_with("unix:")) {
        const auto path = to.find(":/", 5);
        if (path == to.npos || path == 5)
            throw std::runtime_error(fault_of_place(to, "expected unix:SOCKET:/PATH"));
        return {"http://localhost" + to.substr(path + 1), to.substr(5, path - 5)};
    }
    const std::string host = to.substr(7, to.find_first_of("/?#", 7) - 7);
    const std::string name = host.substr(0, host.rfind(':'));
    const bool is_here = name == "127.0.0.1" || name == "localhost" || name == "[::1]";
    if (!is_here || host.find('@') != host.npos)  // 127.0.0.1:80@HOST is a user at HOST
        throw std::runtime_error(fault_of_place(to, "expected a hook on this machine: 127.0.0.1, "
                                                    "localhost, [::1], or unix:SOCKET:/PATH"));
    return {to, ""};
}

// Percent-encodes bytes, for a header.
std::string encoded(const std::string& bytes) {
    std::string text;
    for (const char c : bytes)
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            std::string_view("-._~:").find(c) != std::string_view::npos)
            text += c;
        else
            text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    return text;
}

using queue = hook_queue<tvec::clocked_wheel<>>;

// A request on its way.
struct request {
    explicit request(queue::entry& e) : of(e), easy(curl_easy_init()) {
        if (easy == nullptr) throw std::bad_alloc();
    }
    request(const request&) = delete;
    request& operator=(const request&) = delete;
    ~request() {
        curl_easy_cleanup(easy);
        curl_slist_free_all(headers);
    }
    void add_header(const std::string& line) {
        headers = curl_slist_append(headers, line.c_str());
        if (headers == nullptr) throw std::bad_alloc();
    }

    queue::entry& of;
    CURL* easy;
    curl_slist* headers = nullptr;
    std::string answer;
    bool was_sent = false;
    std::list<request>::iterator self;
};

// Refuses to send it once more. When a connection that was kept breaks, libcurl takes the next one,
// five times: the hook would get a delivery that it hangs up on more often than the queue counts.
int before_sending(void* of, char*, char*, int, int) {
    return std::exchange(static_cast<request*>(of)->was_sent, true) ? CURL_PREREQFUNC_ABORT
                                                                    : CURL_PREREQFUNC_OK;
}

std::size_t on_answer(char* bytes, std::size_t, std::size_t size, void* of) {
    return example::from_c(std::size_t{0}, [&] {
        std::string& answer = static_cast<request*>(of)->answer;
        answer.append(bytes, std::min(size, largest_answer - answer.size()));
        return size;  // the rest of a long answer says nothing
    });
}

std::size_t on_header(char* bytes, std::size_t, std::size_t size, void* of) {
    return example::from_c(std::size_t{0}, [=] {
        CURL* const easy = static_cast<request*>(of)->easy;
        const bool is_last = std::string_view(bytes, size) == "\r\n";
        if (is_last && has_stray_body(easy)) curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
        return size;
    });
}

// Too Many Requests, Bad Gateway, Service Unavailable and Gateway Timeout: the hook or a proxy
// before it is overloaded, or away.
bool is_refusal(long status) { return status == 429 || (status >= 502 && status <= 504); }

queue::way way_of(CURLcode how, CURL* easy) {
    if (how == CURLE_OK)
        return is_refusal(status_of(easy)) ? queue::way::refused : queue::way::answered;
    if (how == CURLE_ABORTED_BY_CALLBACK) return queue::way::broken;  // before it was sent again
    long sent = 0;
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent);
    if (sent == 0) return queue::way::unsent;
    return how == CURLE_OPERATION_TIMEDOUT ? queue::way::silent : queue::way::broken;
}

class hook_sink final : public sink {
public:
    hook_sink(loop& in, const settings& o, completion answered)
        : loop_(in), settings_(o), address_(hook_at(o.to)), answered_(std::move(answered)) {
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
            throw std::runtime_error("libcurl does not start");
        multi_ = curl_multi_init();
        set(CURLMOPT_SOCKETFUNCTION, &on_socket);
        set(CURLMOPT_SOCKETDATA, this);
        set(CURLMOPT_TIMERFUNCTION, &on_timer);
        set(CURLMOPT_TIMERDATA, this);
        set(CURLMOPT_MAXCONNECTS, static_cast<long>(most_in_flight(o)));  // kept for the next ones
    }
    ~hook_sink() override {
        for (const request& r : requests_) curl_multi_remove_handle(multi_, r.easy);
        requests_.clear();
        curl_multi_cleanup(multi_);
    }

    void put(delivery d) override { queue_.put(std::move(d)); }
    // A request that has left goes on: its answer is stale.
    void withdraw(const token& t) override { queue_.withdraw(t); }
    void flush() override { read_answers(); }
    std::string fault() const override {
        if (queue_.is_away()) return fault_;
        if (!queue_.is_refusing()) return "";
        return fmt::format("hook: refuses all {}: HTTP {}", most_in_flight(settings_), refusal_);
    }
    std::string refusals() const override {
        const std::size_t n = queue_.refused();
        return n == 0 ? "" : fmt::format("{} of them refused: hook: HTTP {}", n, refusal_);
    }
    std::optional<untaken_delivery> untaken(const std::string& prefix) const override {
        std::optional<untaken_delivery> first;
        queue_.for_each_waiting(
            [&](const queue::entry& e) { keep_first(first, prefix, e.d.token, e.d.due, e.why); });
        return first;
    }

private:
    void send(queue::entry& e) {
        request& r = requests_.emplace_back(e);
        r.self = std::prev(requests_.end());
        r.add_header("Content-Type: application/octet-stream");
        r.add_header("Expect:");
        r.add_header("Tvec-Id: " + encoded(e.d.token.id));
        r.add_header(fmt::format("Tvec-Attempt: {}", e.d.token.attempt));
        r.add_header(fmt::format("Tvec-Due: {}", e.d.due.time_since_epoch().count()));
        curl_easy_setopt(r.easy, CURLOPT_URL, address_.url.c_str());
        if (!address_.socket.empty())
            curl_easy_setopt(r.easy, CURLOPT_UNIX_SOCKET_PATH, address_.socket.c_str());
        curl_easy_setopt(r.easy, CURLOPT_PROTOCOLS_STR, "http");
        curl_easy_setopt(r.easy, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(r.easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(r.easy, CURLOPT_HTTPHEADER, r.headers);
        curl_easy_setopt(r.easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         static_cast<curl_off_t>(e.d.body.size()));
        curl_easy_setopt(r.easy, CURLOPT_POSTFIELDS, e.d.body.data());
        curl_easy_setopt(r.easy, CURLOPT_WRITEFUNCTION, &on_answer);
        curl_easy_setopt(r.easy, CURLOPT_WRITEDATA, &r);
        curl_easy_setopt(r.easy, CURLOPT_HEADERFUNCTION, &on_header);
        curl_easy_setopt(r.easy, CURLOPT_HEADERDATA, &r);
        curl_easy_setopt(r.easy, CURLOPT_PREREQFUNCTION, &before_sending);
        curl_easy_setopt(r.easy, CURLOPT_PREREQDATA, &r);
        if (e.breaks > 0) curl_easy_setopt(r.easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(r.easy, CURLOPT_PRIVATE, &r);
        curl_easy_setopt(r.easy, CURLOPT_TIMEOUT_MS, static_cast<long>(settings_.lease_ms));
        curl_multi_add_handle(multi_, r.easy);
    }

    template <class Value> void set(CURLMoption what, Value v) {
        curl_multi_setopt(multi_, what, v);
    }

    static int on_socket(CURL*, curl_socket_t fd, int what, void* of, void* known) {
        return example::from_c(-1, [=] { return watch(fd, what, of, known); });
    }
    static int watch(curl_socket_t fd, int what, void* of, void* known) {
        auto& mine = *static_cast<hook_sink*>(of);
        if (what == CURL_POLL_REMOVE) {
            mine.loop_.forget(fd);
            return 0;
        }
        const std::uint32_t events = ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0U) |
                                     ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0U);
        if (known != nullptr) {
            mine.loop_.change(fd, events);
            return 0;
        }
        mine.loop_.watch(fd, events, [&mine, fd](std::uint32_t ready) {
            const int mask = ((ready & (EPOLLIN | EPOLLHUP)) != 0 ? CURL_CSELECT_IN : 0) |
                             ((ready & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                             ((ready & EPOLLERR) != 0 ? CURL_CSELECT_ERR : 0);
            mine.act(fd, mask);
        });
        curl_multi_assign(mine.multi_, fd, of);
        return 0;
    }
    static int on_timer(CURLM*, long ms, void* of) {
        auto& mine = *static_cast<hook_sink*>(of);
        mine.timeout_.cancel();
        if (ms >= 0) mine.loop_.wheel().arm_after(mine.timeout_, std::chrono::milliseconds(ms));
        return 0;
    }
    void on_timeout() { act(CURL_SOCKET_TIMEOUT, 0); }

    void act(curl_socket_t fd, int mask) {
        int running = 0;
        curl_multi_socket_action(multi_, fd, mask, &running);
        read_answers();
    }

    void read_answers() {
        int left = 0;
        while (const CURLMsg* const m = curl_multi_info_read(multi_, &left)) {
            if (m->msg != CURLMSG_DONE) continue;
            request* r = nullptr;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &r);
            const CURLcode how = m->data.result;
            curl_multi_remove_handle(multi_, r->easy);
            std::list<request> over;
            over.splice(over.end(), requests_, r->self);
            on_end(*r, how);
        }
    }

    void on_end(const request& r, CURLcode how) {
        const queue::way way = way_of(how, r.easy);
        if (way == queue::way::unsent) fault_ = std::string("hook: ") + curl_easy_strerror(how);
        if (way == queue::way::refused) {
            refusal_ = status_of(r.easy);
            r.of.why = fmt::format("hook: HTTP {}", refusal_);  // its text may repeat the body
        }
        if (way == queue::way::broken) r.of.why = "hook: it hung up";
        if (queue_.end(r.of, way, wait_of(r.easy)))
            answered_(r.of.d.token, meaning_of(how, r.easy, r.answer));
        queue_.go_on();
    }

    loop& loop_;
    const settings& settings_;
    const hook_address address_;
    const completion answered_;
    tvec::timer timeout_{tvec::call<&hook_sink::timeout_, &hook_sink::on_timeout>};
    CURLM* multi_ = nullptr;
    std::list<request> requests_;
    std::string fault_;  // for which the hook could not be reached
    long refusal_ = 0;   // the status of the last one
    queue queue_{loop_.wheel(), std::chrono::milliseconds(settings_.lease_ms),
                 most_in_flight(settings_), [this](queue::entry& e) { send(e); }};
};

}  // namespace

std::unique_ptr<sink> open_hook(loop& in, const settings& o, sink::completion answered) {
    return std::make_unique<hook_sink>(in, o, std::move(answered));
}

}  // namespace timers_tool
