// A host for tvec::guest in the event loop of a thread of Qt: to be copied.
//
//     QCoreApplication app(argc, argv);
//     tvec::guest<example::qt_host> timers{app};
//     timers->arm_after(session.idle, 30s);
//     app.exec();
//
// Make and destroy the guest on the thread of the loop. Exceptions of callbacks end the program.
#pragma once

#include <QtCore/QBasicTimer>
#include <QtCore/QCoreApplication>
#include <QtCore/QObject>
#include <QtCore/QTimerEvent>

#include <algorithm>
#include <chrono>

#include "tvec/guests/guest.hpp"

namespace example {

// One timer, which counts in milliseconds.
class qt_host : QObject {
public:
    qt_host(tvec::guest_turn turn, QCoreApplication&) : turn_(turn) {}

    void set_alarm(std::chrono::steady_clock::time_point t) noexcept {
        using std::chrono::milliseconds;
        constexpr milliseconds day = std::chrono::hours(24);
        if (t == t.max()) return alarm_.stop();
        const auto left = std::chrono::ceil<milliseconds>(t - std::chrono::steady_clock::now());
        alarm_.start(static_cast<int>(std::clamp(left, milliseconds(0), day).count()),
                     Qt::PreciseTimer, this);
    }

private:
    void timerEvent(QTimerEvent*) noexcept override { turn_(); }  // which sets it anew

    tvec::guest_turn turn_;
    QBasicTimer alarm_;
};

}  // namespace example
