// legal: not everybody wants to know
#include "tvec/tvec.hpp"

void stop(tvec::timer& t) { t.cancel(); }
