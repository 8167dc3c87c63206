// A test's own Redis server: on a socket in a temporary folder, with its data beside it.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"
#include "support/unix_socket.hpp"
#include "tvec/durable/redis_store.hpp"

namespace support {

// Returns a free port of the loopback.
inline int free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof name;
    bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name);
    getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
    close(fd);
    return ntohs(name.sin_port);
}

// Returns whether the program exists. A test without it is skipped with a message.
inline bool is_there(const std::string& program) {
    for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/usr/local/bin/"})
        if (std::filesystem::exists(folder + program)) return true;
    return false;
}

// Skips the test before it has a folder: no destructor runs after that.
struct needs_redis {
    needs_redis() {
        if (!is_there("redis-server")) cr_skip("there is no redis-server");
    }
};

// It ends with the object, and with the process of the test, however that ends.
class redis_server : needs_redis, temporary_folder {
public:
    using words = std::vector<std::string>;

    explicit redis_server(words options = {"--appendonly", "yes", "--appendfsync", "always"})
        : options_(std::move(options)) {
        start();
    }
    ~redis_server() { end(SIGKILL); }

    const std::string& folder() const { return name(); }
    std::string socket() const { return name() + "/socket"; }
    int port() const { return port_; }

    void start() {
        words w{"redis-server", "--port",    std::to_string(port_),
                "--bind",       "127.0.0.1", "--unixsocket",
                socket(),       "--dir",     name(),
                "--save",       "",          "--logfile",
                name() + "/log"};
        w.insert(w.end(), options_.begin(), options_.end());
        pid_ = run(w);
        for (int i = 0; i < 1'000 && !answers(); ++i) usleep(10'000);
        REQUIRE(answers());
    }
    void stop() { kill(pid_, SIGSTOP); }
    void go_on() { kill(pid_, SIGCONT); }
    void end(int signal = SIGTERM) {
        if (pid_ <= 0) return;
        kill(pid_, signal);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
        std::filesystem::remove(socket());
    }

    // Runs a program to its end. Returns whether it succeeded.
    static bool run_to_its_end(words w) {
        int status = -1;
        waitpid(run(w), &status, 0);
        return status == 0;
    }
    // Runs redis-cli with this command. Returns the answer.
    std::string say(const words& what) const {
        words w{"redis-cli", "-s", socket()};
        w.insert(w.end(), what.begin(), what.end());
        int ends[2];
        REQUIRE(pipe(ends) == 0);
        const pid_t child = run(w, ends[1]);
        close(ends[1]);
        std::string answer = read_all(ends[0]);
        waitpid(child, nullptr, 0);
        while (!answer.empty() && answer.back() == '\n') answer.pop_back();
        return answer;
    }

private:
    static pid_t run(words& w, int out = -1) {
        std::vector<char*> argv;
        for (std::string& word : w) argv.push_back(word.data());
        argv.push_back(nullptr);
        const pid_t child = fork();
        if (child != 0) return child;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (out < 0) out = open("/dev/null", O_WRONLY);
        dup2(out, STDOUT_FILENO);
        execvp(argv[0], argv.data());
        _exit(127);
    }

    // The test does not read from its socket: an accepted connection is enough.
    bool answers() const {
        const int fd = connected_to(socket());
        if (fd >= 0) close(fd);
        return fd >= 0;
    }

    words options_;
    int port_ = free_port();
    pid_t pid_ = -1;
};

// A cluster of one node, which has all slots.
struct one_node {
    explicit one_node(redis_server::words more = {}) : server(options(std::move(more))) {
        server.say({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
        while (server.say({"CLUSTER", "INFO"}).find("cluster_state:ok") == std::string::npos)
            usleep(5'000);
    }
    static redis_server::words options(redis_server::words more) {
        redis_server::words all{
            "--appendonly",      "yes", "--appendfsync",  "always",
            "--cluster-enabled", "yes", "--cluster-port", std::to_string(free_port())};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    const redis_server server;
};

// Checks that this server is refused with this code and these words.
inline void refuses(const tvec::durable::redis_options& o, std::errc code,
                    const std::string& words) {
    asking::refused([&] { const tvec::durable::redis_store s(o); }, code, words);
}

}  // namespace support
