// A wheel as a guest of Boost.Asio, which takes ownership of the descriptors that it watches. Other
// threads wake the loop by a post.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "conversation.hpp"
#include "tvec/guests/asio_guest.hpp"

namespace {

void listen(boost::asio::posix::stream_descriptor& socket, example::conversation& talk) {
    socket.async_wait(socket.wait_read, [&](auto error) {
        if (error) return;
        talk.on_readable();
        listen(socket, talk);
    });
}

class mailbox {
public:
    mailbox(boost::asio::io_context& io, example::timers& wheel)
        : mailbox_(wheel, 4, [this, &io] { boost::asio::post(io, [this] { take_in(); }); }) {
        mailbox_.rearm();
    }

    tvec::mailbox_sender<> sender() const { return mailbox_.sender(); }

private:
    void take_in() {
        mailbox_.run(128);  // takes in what other threads have sent
        mailbox_.rearm();   // the next of them rings again
    }

    tvec::mailbox<> mailbox_;
};

}  // namespace

int main() {
    boost::asio::io_context io;  // outlives everything that posts to it
    tvec::asio_guest timers{io};
    example::conversation talk(*timers);
    boost::asio::posix::stream_descriptor socket(io, ::dup(talk.fd()));
    listen(socket, talk);
    mailbox mail(io, *timers);
    talk.let_in(mail.sender());
    talk.when_over([&] { io.stop(); });
    io.run();
    return talk.verdict("asio");
}
