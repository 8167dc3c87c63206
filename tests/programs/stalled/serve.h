/* A server whose loop is blocked, in C++ or C. talkers.cpp are its clients. */
#ifndef TESTS_PROGRAMS_STALLED_SERVE_H
#define TESTS_PROGRAMS_STALLED_SERVE_H

enum { idle_ms = 1000 };    /* who says nothing for so long is closed */
enum { blocked_ms = 1500 }; /* the handler of `block` takes so long */

/* What clients say. */
enum { word = 'w', block = 'b', end = 'e' };

#ifdef __cplusplus
extern "C"
#endif
    /* Serves until a client says `end`. */
    void
    serve(int listener);

#endif
