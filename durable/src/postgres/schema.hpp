/// \file
/// The tables and functions in the database: schema.sql.
#pragma once

namespace tvec::durable::postgres {

/// The text, with placeholders for the name of the schema and the number of shards.
extern const char schema[];
/// The version of the tables and functions.
inline constexpr long long schema_version = 5;

}  // namespace tvec::durable::postgres
