// The store in a PostgreSQL database: its answers equal those of the store in memory, it can be
// shared, and it reports problems of a server.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "support/any_store.hpp"
#include "support/asking.hpp"
#include "support/check.hpp"
#include "support/postgres_server.hpp"
#include "tvec/durable/postgres_store.hpp"
#include "tvec/durable/timers.hpp"

using namespace std::chrono_literals;
using namespace support::asking;
using namespace tvec::durable;
using support::postgres_server, support::sql_client;

TestSuite(durable_postgres, .timeout = 60);

Test(durable_postgres, it_answers_as_the_store_in_memory_does) {
    const postgres_server server;
    postgres_store s(server.options());
    support::answers_as_the_store_in_memory(s, 3'000);
}

Test(durable_postgres, what_is_soon_is_taken_in_order_page_by_page) {
    const postgres_server server;
    server.install(1);
    postgres_store s(server.options());
    support::takes_in_order(s);
}

Test(durable_postgres, fifty_timers_are_delivered_and_none_is_early) {
    const postgres_server server;
    postgres_store s(server.options());
    support::delivers_fifty(s);
}
