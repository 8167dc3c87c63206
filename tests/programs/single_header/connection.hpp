// Half of a program, used by the other source file.
#pragma once

#include "tvec.hpp"

class connection {
public:
    explicit connection(tvec::clocked_wheel<>& timers) : timers_(timers) { heard(); }
    void heard();
    bool closed() const { return closed_; }

private:
    void on_idle() { closed_ = true; }

    tvec::clocked_wheel<>& timers_;
    tvec::timer idle_{tvec::call<&connection::idle_, &connection::on_idle>};
    bool closed_ = false;
};
