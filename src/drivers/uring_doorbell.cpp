#include "tvec/drivers/uring_doorbell.hpp"

#include <memory>

#include "kernel.hpp"

namespace tvec {

namespace {

bool knows_messages() noexcept {
    const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
        io_uring_get_probe(), io_uring_free_probe);
    return probe && io_uring_opcode_supported(probe.get(), IORING_OP_MSG_RING);
}

}  // namespace

detail::kernel_result uring_doorbell::is_supported() noexcept {
    if (knows_messages()) return detail::answer(true);
    return detail::refused("uring_doorbell: this kernel has no messages between rings");
}

/// The loop ends: the kernel consumes a full queue, unless it has no memory at all.
void uring_doorbell::operator()() noexcept {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
        io_uring_submit(&ring_);
        sqe = io_uring_get_sqe(&ring_);
    }
    io_uring_prep_msg_ring(sqe, target_, 0, user_data_, 0);
    io_uring_sqe_set_data64(sqe, user_data_);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

detail::kernel_result uring_doorbell::completed(std::uint64_t user_data, int result) noexcept {
    if (user_data != user_data_) return detail::answer(false);
    if (result == -EAGAIN || result == -EOVERFLOW)
        (*this)();
    else if (result < 0)
        return detail::failed(-result, "uring_doorbell: IORING_OP_MSG_RING");
    return detail::answer(true);
}

}  // namespace tvec
