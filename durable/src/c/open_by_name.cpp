#include "open_by_name.hpp"

#include <dlfcn.h>

#include <string_view>
#include <system_error>

#include "tvec/core/detail/broken_promise.hpp"
#include "tvec/durable/sqlite_store.hpp"

namespace tvec::durable::c {

namespace {

// Stores with libraries of their own, by the beginning of their names. Each library,
// libtvec-durable-KIND, has a function tvec_durable_KIND_store, which opens a store by its name.
struct {
    std::string_view prefix, kind;
} constexpr elsewhere[] = {{"redis:", "redis"},
                           {"rediss:", "redis"},
                           {"postgres:", "postgres"},
                           {"postgresql:", "postgres"}};
using opener = store*(const char* name);

// Returns the file that contains a function or an object.
std::string library_of(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Lets libraries that are loaded later find those of the wheel and of durable timers. A binding may
// have loaded them for itself only.
void share_libraries(const std::string& durable) {
    const auto wheel = reinterpret_cast<const void*>(&tvec::detail::broken_promise);
    for (const std::string& name : {durable, library_of(wheel)})
        dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

// Loads the library that lies beside that of durable timers, or one that the system knows.
void* load(const std::string& name) {
    const std::string durable = library_of(reinterpret_cast<const void*>(&next_beat));
    share_libraries(durable);
    const std::string beside = durable.substr(0, durable.rfind('/') + 1) + name;
    if (void* const library = dlopen(beside.c_str(), RTLD_NOW)) return library;
    return dlopen(name.c_str(), RTLD_NOW);
}

std::unique_ptr<store> open_in_library(const std::string& kind, const std::string& name) {
    const std::string file = "libtvec-durable-" + kind + ".so." TVEC_CPP_SO_NUMBER;
    void* const library = load(file);
    const auto open = library == nullptr
                          ? nullptr
                          : reinterpret_cast<opener*>(
                                dlsym(library, ("tvec_durable_" + kind + "_store").c_str()));
    if (open == nullptr) {
        const char* const why = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
        throw std::system_error(std::make_error_code(std::errc::not_supported),
                                kind + ": the store needs " + file + ": " +
                                    (why == nullptr ? "it has no such store" : why));
    }
    return std::unique_ptr<store>(open(name.c_str()));
}

}  // namespace

std::unique_ptr<store> open_by_name(const std::string& name) {
    for (const auto& [prefix, kind] : elsewhere)
        if (name.starts_with(prefix)) return open_in_library(std::string(kind), name);
    return std::make_unique<sqlite_store>(name);
}

}  // namespace tvec::durable::c
