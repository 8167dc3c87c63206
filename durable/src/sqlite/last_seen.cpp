#include "last_seen.hpp"

#include <cstring>

namespace tvec::durable::detail {

namespace {

// The format of SQLite's files: https://www.sqlite.org/fileformat2.html
constexpr char magic_of_file[] = "SQLite format 3";
constexpr std::uint32_t magic_of_log = 0x377f0682;  // the last bit may be set
constexpr int log_header = 32, frame_header = 24;
constexpr std::size_t change_counter = 24, page_size_in_log = 8;

std::uint32_t number_at(const unsigned char* bytes) {
    std::uint32_t n = 0;
    for (int i = 0; i < 4; ++i) n = (n << 8) | bytes[i];
    return n;
}

bool is_same_time(const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

void last_seen::note_file(sqlite3* db, const struct stat& file) noexcept {
    file_ = file;
    file_header_ = header_of(db, SQLITE_FCNTL_FILE_POINTER, sizeof(header)).value_or(header());
}

void last_seen::note_log(sqlite3* db, off_t log, log_state& commits) noexcept {
    note(log, header_of(db, SQLITE_FCNTL_JOURNAL_POINTER, log_header).value_or(header()), commits);
}

void last_seen::note(off_t log, const header& now, log_state& commits) noexcept {
    log_header_ = now;
    log_size_ = log;
    frames_ = commits.frames;
    commits.has_commits = false;
}

// What cannot be read was not overwritten: the next commit tells why it fails.
bool last_seen::is_as_left(sqlite3* db, const struct stat& file, off_t log,
                           log_state& commits) noexcept {
    const auto of_file = header_of(db, SQLITE_FCNTL_FILE_POINTER, sizeof(header));
    const auto of_log = header_of(db, SQLITE_FCNTL_JOURNAL_POINTER, log_header);
    if (!of_file || !of_log) return true;
    if (!is_file_as_left(file, *of_file) || !is_log_as_left(log, *of_log, commits)) return false;
    note(log, *of_log, commits);
    return true;
}

// Reads beside the cache of SQLite.
std::optional<last_seen::header> last_seen::header_of(sqlite3* db, int which, int bytes) noexcept {
    header all{};
    sqlite3_file* f = nullptr;
    sqlite3_file_control(db, nullptr, which, &f);
    if (f == nullptr || f->pMethods == nullptr) return all;
    const int code = f->pMethods->xRead(f, all.data(), bytes, 0);
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) return std::nullopt;
    return all;
}

// The counter of changes in the header never goes back.
bool last_seen::is_file_as_left(const struct stat& file, const header& now) noexcept {
    if (!is_shared_)
        return file.st_size == file_.st_size && is_same_time(file.st_mtim, file_.st_mtim) &&
               now == file_header_;
    if (std::memcmp(now.data(), magic_of_file, sizeof magic_of_file) != 0) return false;
    const std::uint32_t rise =
        number_at(&now[change_counter]) - number_at(&file_header_[change_counter]);
    if (rise > UINT32_MAX / 2) return false;
    file_header_ = now;
    return true;
}

// A log keeps its header until it begins anew with few frames. Others may have cut a shared one
// after the last commit.
bool last_seen::is_log_as_left(off_t size, const header& now,
                               const log_state& commits) const noexcept {
    const bool is_log = (number_at(now.data()) & ~1U) == magic_of_log;
    if (is_shared_) return commits.frames == 0 || size < log_header || is_log;
    if (!commits.has_commits) return size == log_size_ && now == log_header_;
    const bool has_grown = frames_ != 0 && commits.frames > frames_;
    const off_t frame = frame_header + off_t{number_at(&now[page_size_in_log])};
    return is_log && size >= log_header + commits.frames * frame &&
           (!has_grown || now == log_header_);
}

}  // namespace tvec::durable::detail
