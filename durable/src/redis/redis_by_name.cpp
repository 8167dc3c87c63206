// The store in a Redis server for the C interface, which loads this library by its name.
#define TVEC_HAS_REDIS
#include "../../support/open_store.hpp"
#include "tvec/core/detail/export.hpp"

extern "C" TVEC_API tvec::durable::store* tvec_durable_redis_store(const char* where);

// Opens what follows "redis:" in the name. Throws std::exception.
tvec::durable::store* tvec_durable_redis_store(const char* where) {
    return new tvec::durable::redis_store(example::redis_at(where));
}
