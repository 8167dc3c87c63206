// The interface of a shared library with a copy of tvec and a wheel of its own.
#pragma once

struct copy {
    void* (*make)();
    void (*destroy)(void* wheel);
    void (*arm)(void* wheel, void* timer, unsigned long at);
    unsigned long (*fire)(void* wheel, unsigned long until);  // how many
};

extern "C" {
copy this_version();
copy other_version();
}
