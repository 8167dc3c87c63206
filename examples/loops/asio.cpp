// A wheel in a loop on Boost.Asio, which takes ownership of the descriptors that it watches. Other
// threads wake the loop by a post.
#include <utility>  // Boost 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "asio_alarm.hpp"
#include "conversation.hpp"

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
    mailbox(boost::asio::io_context& loop, example::timers& wheel)
        : mailbox_(wheel, 4, [this, &loop] { boost::asio::post(loop, [this] { take_in(); }); }) {
        mailbox_.rearm();
    }

    tvec::mailbox_sender<> sender() const { return mailbox_.sender(); }

private:
    void take_in() {
        mailbox_.run();    // takes in what other threads have sent
        mailbox_.rearm();  // the next of them rings again
    }

    tvec::mailbox<> mailbox_;
};

}  // namespace

int main() {
    boost::asio::io_context loop;  // outlives everything that posts to it
    example::timers timers;
    example::conversation talk(timers);
    example::alarm_timer alarm(loop, timers);
    boost::asio::posix::stream_descriptor socket(loop, ::dup(talk.fd()));
    listen(socket, talk);
    mailbox mail(loop, timers);
    talk.let_in(mail.sender());
    while (!talk.over()) {
        alarm.rearm();    // the last thing before the sleep
        loop.run_one();   // sleeps
        loop.poll();      // what else is ready
        timers.run(256);  // always, whatever woke us
    }
    return talk.verdict("asio");
}
