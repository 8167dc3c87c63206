// says: a reference: a wheel stays where it is
// lines: 6
#include "tvec/tvec.hpp"

tvec::clocked_wheel<> make() {
    tvec::clocked_wheel<> w;
    return w;
}
