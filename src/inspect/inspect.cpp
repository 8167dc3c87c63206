#include "tvec/inspect/inspect.hpp"

#include "tvec/inspect/detail/fault.hpp"

namespace tvec {

std::string check(const timer_wheel& wheel) { return detail::first_fault(wheel).c_str(); }

}  // namespace tvec
