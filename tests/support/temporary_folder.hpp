// A folder for the files of a test, which goes with it.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace support {

class temporary_folder {
public:
    temporary_folder() : name_((std::filesystem::temp_directory_path() / "tvec-XXXXXX").string()) {
        if (!mkdtemp(name_.data())) throw std::system_error(errno, std::generic_category(), name_);
    }
    ~temporary_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(name_, ignored);
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;

    const std::string& name() const { return name_; }

private:
    std::string name_;
};

}  // namespace support
