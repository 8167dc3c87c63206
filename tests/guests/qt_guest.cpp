// A wheel in an event loop of Qt: the promises of every guest. exec() runs until it is told to
// stop, so the host counts what is left.
#include "loops/hosts/qt.hpp"

#include <QtCore/QAbstractEventDispatcher>
#include <QtCore/QSocketNotifier>
#include <QtCore/QTimer>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace {

struct host {
    template <class Ticks> struct guest_on : tvec::guest<example::qt_host, Ticks> {
        guest_on(host& h, Ticks ticks)
            : tvec::guest<example::qt_host, Ticks>(h.app, ticks), own(h) {}
        void keep_running(bool on = true) { own.kept = on; }
        host& own;
    };
    template <class Ticks = tvec::tick_clock<std::chrono::milliseconds>>
    std::unique_ptr<guest_on<Ticks>> guest_in(Ticks ticks = {}) {
        return std::make_unique<guest_on<Ticks>>(*this, ticks);
    }
    std::size_t run() {
        std::size_t turns = 0;
        for (stopped = false; !stopped && (left != 0 || kept); ++turns)
            QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
        return turns;
    }
    void stop() { stopped = true; }
    void post(std::function<void()> f) { after({}, std::move(f)); }
    void after(std::chrono::milliseconds d, std::function<void()> f) {
        ++left;
        QTimer::singleShot(d, Qt::PreciseTimer, [this, f = std::move(f)] {
            --left;
            f();
        });
    }
    void watch(int fd, std::function<void()> f) {
        ++left;
        watched.push_back(std::make_unique<QSocketNotifier>(fd, QSocketNotifier::Read));
        QObject::connect(watched.back().get(), &QSocketNotifier::activated, [f] { f(); });
    }
    void unwatch() {
        for (const auto& w : watched) w->setEnabled(false), --left;
    }

    int argc = 1;
    char name[5] = "test";
    char* argv[2] = {name, nullptr};
    QCoreApplication app{argc, argv};
    std::vector<std::unique_ptr<QSocketNotifier>> watched;
    int left = 0;
    bool kept = false, stopped = false;
};

}  // namespace

#include "every_guest.hpp"
