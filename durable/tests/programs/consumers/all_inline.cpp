// All inline code of the headers, compiled with -fkeep-inline-functions. It links if the libraries
// export every function that this code calls.
#include <tvec/durable/memory_store.hpp>
#include <tvec/durable/metrics.hpp>
#include <tvec/durable/sqlite_store.hpp>
#include <tvec/durable/timers.hpp>

#ifdef WANT_REDIS
#include <tvec/durable/redis_store.hpp>
#endif

template class tvec::durable::timers<>;

int main() {}
