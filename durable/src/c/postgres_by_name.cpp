// The PostgreSQL store for the C interface: a part of libtvec-durable-postgres, which the interface
// loads.
#define TVEC_HAS_POSTGRES
#include "../../support/open_store.hpp"
#include "tvec/core/detail/export.hpp"

extern "C" TVEC_API tvec::durable::store* tvec_durable_postgres_store(const char* name);

// Opens a store by its whole name. Throws std::exception.
tvec::durable::store* tvec_durable_postgres_store(const char* name) {
    return example::open_store(name).release();
}
