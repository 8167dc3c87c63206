#include "tvec/drivers/eventfd_doorbell.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>

#include "tvec/drivers/detail/kernel_result.hpp"

namespace tvec {

eventfd_doorbell::descriptor::descriptor() : fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (fd < 0) detail::raise(errno, "eventfd_doorbell: eventfd");
}

eventfd_doorbell::descriptor::~descriptor() { close(fd); }

/// A count that is full (2^64 - 2) is readable, and nothing more is needed.
void eventfd_doorbell::operator()() const noexcept {
    assert(descriptor_ && "a bell that was moved from does not ring");
    static_cast<void>(eventfd_write(descriptor_->fd, 1));
}

int eventfd_doorbell::fd() const noexcept {
    assert(descriptor_ && "a bell that was moved from has no descriptor");
    return descriptor_->fd;
}

bool eventfd_doorbell::acknowledge() const {
    assert(descriptor_ && "a bell that was moved from has no descriptor");
    eventfd_t rings = 0;
    if (eventfd_read(descriptor_->fd, &rings) == 0) return true;
    if (errno != EAGAIN) detail::raise(errno, "eventfd_doorbell: read");
    return false;
}

}  // namespace tvec
