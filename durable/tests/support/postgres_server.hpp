// A test's own PostgreSQL server: on a socket in a temporary folder, with its data beside it.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/temporary_folder.hpp"
#include "tvec/durable/postgres_store.hpp"

namespace support {

// Returns the folder of the programs of the newest PostgreSQL here, or "".
inline std::string postgres_programs() {
    std::vector<std::string> found;
    std::error_code none;
    for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", none))
        if (std::filesystem::exists(version.path() / "bin/initdb"))
            found.push_back(version.path() / "bin/");
    return found.empty() ? "" : *std::ranges::max_element(found);
}

// Becomes the user that PostgreSQL's package has made: it refuses to be run by root.
inline void become_postgres() {
    const passwd* const user = getuid() == 0 ? getpwnam("postgres") : nullptr;
    if (user == nullptr) return;
    if (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        _exit(127);
}

// Starts a program as that user, in a folder with its log. It ends with the process of the test,
// however that ends.
inline pid_t run_as_postgres(std::vector<std::string> words, const std::string& folder) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    const int log = open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    become_postgres();
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (chdir(folder.c_str()) == 0) execv(argv[0], argv.data());
    _exit(127);
}

// A program with a connection of its own. It waits for answers.
class sql_client {
public:
    explicit sql_client(const std::string& conninfo) : c_(PQconnectdb(conninfo.c_str())) {
        PQsetNoticeProcessor(
            c_, [](void*, const char*) {}, nullptr);
    }
    ~sql_client() { PQfinish(c_); }
    sql_client(const sql_client&) = delete;
    sql_client& operator=(const sql_client&) = delete;

    // Returns the first value of the last answer, or the first line of the error.
    std::string run(const std::string& sql) {
        PGresult* const r = PQexec(c_, sql.c_str());
        const ExecStatusType s = PQresultStatus(r);
        std::string said;
        if (s != PGRES_TUPLES_OK && s != PGRES_COMMAND_OK) {
            said = PQerrorMessage(c_);
            said = said.substr(0, said.find('\n'));
        } else if (PQntuples(r) > 0 && PQnfields(r) > 0) {
            said = PQgetvalue(r, 0, 0);
        }
        PQclear(r);
        return said;
    }

private:
    PGconn* c_;
};

// Skips the test before it has a folder: no destructor runs after that.
struct needs_postgres {
    needs_postgres() {
        if (postgres_programs().empty()) cr_skip("there is no PostgreSQL server");
    }
};

class postgres_server : needs_postgres, temporary_folder {
public:
    using words = std::vector<std::string>;

    explicit postgres_server(words options = {}, words of_initdb = {})
        : options_(std::move(options)) {
        std::filesystem::permissions(name(), std::filesystem::perms(0711));
        if (!of_initdb.empty()) init(of_initdb);
        if (of_initdb.empty() && !copy(kept(), data())) {
            init({});
            copy(data(), kept());
        }
        start();
        install();
    }
    ~postgres_server() { end(); }

    std::string data() const { return name() + "/data"; }
    const std::string& folder() const { return name(); }
    std::string conninfo(const std::string& user = "postgres") const {
        return "host=" + data() + " dbname=postgres user=" + user;
    }
    tvec::durable::postgres_options options(unsigned shards = 3) const {
        tvec::durable::postgres_options o;
        o.conninfo = conninfo();
        o.shards = shards;
        return o;
    }
    // Makes a schema with that number of shards in place of the one that is there.
    void install(unsigned shards = 3) const {
        sql_client(conninfo()).run("drop schema if exists tvec cascade");
        tvec::durable::postgres::install(options(shards));
    }

    void start() {
        words w{programs_ + "postgres", "-D", data(), "-k", data(), "-c", "listen_addresses="};
        for (const std::string& o : options_) w.insert(w.end(), {"-c", o});
        pid_ = run_as_postgres(w, name());
        for (int i = 0; i < 1'000 && !answers(); ++i) usleep(10'000);
        REQUIRE(answers());
    }
    void stop() const { kill(pid_, SIGSTOP); }
    void go_on() const { kill(pid_, SIGCONT); }
    // SIGQUIT: as a crash. SIGINT: it ends all sessions, and writes what it has.
    void end(int signal = SIGQUIT) {
        if (pid_ <= 0) return;
        kill(pid_, signal);
        kill(pid_, SIGCONT);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

private:
    // Makes the data of a server.
    void init(const words& more) {
        std::filesystem::create_directory(data());
        if (const passwd* const user = getpwnam("postgres"); user != nullptr && getuid() == 0)
            REQUIRE(chown(data().c_str(), user->pw_uid, user->pw_gid) == 0);
        words w{programs_ + "initdb", "-D", data(), "-U", "postgres", "-A", "trust", "--no-sync",
                "--wal-segsize=1"};
        w.insert(w.end(), more.begin(), more.end());
        int status = -1;
        waitpid(run_as_postgres(w, name()), &status, 0);
        REQUIRE_EQ(status, 0);
    }
    // The data of a new server, beside the tests: a copy costs a sixth of initdb.
    static std::string kept() {
        return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "postgres_data";
    }
    // Returns whether `to` is a copy of `from` now, or was made by another test meanwhile.
    bool copy(const std::string& from, const std::string& to) const {
        const std::string part = to + "." + std::to_string(getpid());
        const std::string made = "cp -a '" + from + "' '" + part + "' 2>/dev/null && mv -T '" +
                                 part + "' '" + to + "' 2>/dev/null";
        if (std::filesystem::exists(from) && std::system(made.c_str()) == 0) return true;
        std::filesystem::remove_all(part);
        return std::filesystem::exists(to);
    }

    bool answers() const { return PQping(conninfo().c_str()) == PQPING_OK; }

    words options_;
    const std::string programs_ = postgres_programs();
    pid_t pid_ = -1;
};

}  // namespace support
