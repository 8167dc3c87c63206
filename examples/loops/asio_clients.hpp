// The clients of the servers with several threads.
#pragma once

#include <boost/asio.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <thread>

namespace example {

// Returns whether the server answered a client each time, and closed it after its last word.
inline bool was_served(boost::asio::ip::tcp::endpoint server, int words) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket socket(io);
    boost::system::error_code error;
    socket.connect(server, error);
    std::array<char, 1> word{'!'};
    for (int i = 0; !error && i < words; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        boost::asio::write(socket, boost::asio::buffer(word), error);
        if (!error) boost::asio::read(socket, boost::asio::buffer(word), error);
    }
    return !error && boost::asio::read(socket, boost::asio::buffer(word), error) == 0 &&
           error == boost::asio::error::eof;
}

// Returns how many of `n` clients, of which each second one is silent, were served.
inline int clients_served(boost::asio::ip::tcp::endpoint server, int n) {
    std::atomic<int> served = 0;
    {
        std::list<std::jthread> threads;
        for (int i = 0; i < n; ++i)
            threads.emplace_back([&, i] { served += was_served(server, i % 2 == 0 ? 0 : 10); });
    }
    return served;
}

}  // namespace example
