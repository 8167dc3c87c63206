// The link to a Redis server breaks, the server ends, hangs, or is none: what is known is said, and
// what was stored is there.
