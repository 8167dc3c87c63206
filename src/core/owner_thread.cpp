#include "tvec/detail/core/owner_thread.hpp"

namespace tvec::detail {

const void* this_thread() noexcept {
    static thread_local char here;
    return &here;
}

}  // namespace tvec::detail
