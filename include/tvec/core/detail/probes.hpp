/// \file
/// Static probes for perf, bpftrace and SystemTap, where TVEC_PROBES is defined.
///
/// A probe is a `nop` and a note in the ELF file of the program. The note says where the nop is,
/// and which registers hold the arguments. A tracer puts a breakpoint there. Without a tracer a
/// probe costs the nop. TVEC_PROBES must be the same for the library and for every file that
/// includes it, because arming and cancelling are inline. The build option `probes` sets it for
/// both. docs/observing.md lists the probes.
#pragma once

#ifdef TVEC_PROBES
#include <sys/sdt.h>
#define TVEC_PROBE1(name, a) DTRACE_PROBE1(tvec, name, a)
#define TVEC_PROBE2(name, a, b) DTRACE_PROBE2(tvec, name, a, b)
#define TVEC_PROBE3(name, a, b, c) DTRACE_PROBE3(tvec, name, a, b, c)
#else
#define TVEC_PROBE1(name, a) static_cast<void>(0)
#define TVEC_PROBE2(name, a, b) static_cast<void>(0)
#define TVEC_PROBE3(name, a, b, c) static_cast<void>(0)
#endif
