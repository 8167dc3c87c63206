# Components of find_package(tvec CONFIG COMPONENTS ...) for durable timers.
#
#   tvec::durable           timers in a store; needs SQLite
#   tvec::durable_redis     a store in a Redis server; needs SQLite, hiredis and OpenSSL
#   tvec::durable_postgres  a store in a PostgreSQL database; needs SQLite, libpq and OpenSSL
#   tvec::durable_calendar  cron expressions; needs cctz

find_library(TVEC_SQLITE_LIBRARY NAMES sqlite3)
find_package(Threads QUIET)
mark_as_advanced(TVEC_SQLITE_LIBRARY)
if(TVEC_SQLITE_LIBRARY AND Threads_FOUND)
  _tvec_target(durable tvec-durable cxx_std_20 tvec::tvec "${TVEC_SQLITE_LIBRARY}" Threads::Threads
    ${CMAKE_DL_LIBS})
endif()

find_library(TVEC_HIREDIS_LIBRARY NAMES hiredis)
find_package(OpenSSL QUIET)
mark_as_advanced(TVEC_HIREDIS_LIBRARY)
if(TVEC_HIREDIS_LIBRARY AND OpenSSL_FOUND AND TARGET tvec::durable)
  _tvec_target(durable_redis tvec-durable-redis cxx_std_20 tvec::durable "${TVEC_HIREDIS_LIBRARY}"
    OpenSSL::SSL OpenSSL::Crypto)
endif()

find_library(TVEC_LIBPQ_LIBRARY NAMES pq)
mark_as_advanced(TVEC_LIBPQ_LIBRARY)
if(TVEC_LIBPQ_LIBRARY AND OpenSSL_FOUND AND TARGET tvec::durable)
  _tvec_target(durable_postgres tvec-durable-postgres cxx_std_20 tvec::durable "${TVEC_LIBPQ_LIBRARY}"
    OpenSSL::Crypto)
endif()

find_library(TVEC_CCTZ_LIBRARY NAMES cctz)
mark_as_advanced(TVEC_CCTZ_LIBRARY)
if(TVEC_CCTZ_LIBRARY)
  _tvec_target(durable_calendar tvec-durable-calendar cxx_std_20 "${TVEC_CCTZ_LIBRARY}")
endif()
