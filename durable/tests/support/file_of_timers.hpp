// Files of durable timers: their paths, refusals, and changes by other processes.
#pragma once

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>

#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/temporary_folder.hpp"
#include "tvec/durable/sqlite_store.hpp"

namespace support {

struct file_of_timers : temporary_folder {
    std::string path = name() + "/timers.db";
    std::string log = path + "-wal";
};

// Checks that opening it throws an error with this code and this text.
inline void refuses(const std::string& path, std::errc error, const std::string& words,
                    tvec::durable::sqlite_options o = {}) {
    asking::refused([&] { const tvec::durable::sqlite_store s(path, o); }, error, words);
    asking::refused([&] { const tvec::durable::sqlite_store s(path, o); }, error, path);
}

// Returns SQLite's result for it.
inline int try_sql(const std::string& path, const std::string& sql) {
    sqlite3* db = nullptr;
    REQUIRE_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    sqlite3_close(db);
    return code;
}
inline void run_sql(const std::string& path, const std::string& sql) {
    CHECK_EQ(try_sql(path, sql), SQLITE_OK);
}

// Runs work in another process, which was forked before this one opened a file.
class other_process {
public:
    explicit other_process(const std::function<int()>& does) {
        REQUIRE_EQ(pipe(pipe_), 0);
        process_ = fork();
        if (process_ != 0) return;
        char go = 0;
        close(pipe_[1]);
        _exit(read(pipe_[0], &go, 1) == 1 ? does() : 99);
    }
    ~other_process() {
        close(pipe_[0]);
        close(pipe_[1]);
    }
    other_process(const other_process&) = delete;
    other_process& operator=(const other_process&) = delete;

    // Runs the work. Returns its result.
    int operator()() {
        CHECK_EQ(write(pipe_[1], "!", 1), 1);
        int status = 0;
        waitpid(process_, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    int pipe_[2]{};
    pid_t process_ = -1;
};

// Returns whether opening it is refused because another process has it.
inline bool is_busy(const std::string& path) {
    try {
        const tvec::durable::sqlite_store s(path);
        return false;
    } catch (const std::system_error& e) {
        return e.code() == std::errc::device_or_resource_busy;
    }
}

}  // namespace support
