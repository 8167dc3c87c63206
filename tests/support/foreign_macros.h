/* Words that headers of others define as macros. The check `headers` compiles the public headers
   after them. Not here: min and max, which Windows defines in C only, as libstdc++ demands. */
#pragma once

/* Qt */
#define signals public
#define slots
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)
#define Q_OBJECT
#define Q_SIGNALS public
#define Q_SLOTS
#define Q_EMIT
#define Q_UNUSED(x) (void)x;
#define SIGNAL(a) "2" #a
#define SLOT(a) "1" #a

/* GLib */
#undef MIN
#undef MAX
#undef ABS
#undef TRUE
#undef FALSE
#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define ABS(a) (((a) < 0) ? -(a) : (a))
#define CLAMP(x, low, high) (((x) > (high)) ? (high) : (((x) < (low)) ? (low) : (x)))
#define TRUE (!FALSE)
#define FALSE (0)

/* Windows */
#define near
#define far
#define NEAR
#define FAR
#define small char
#define hyper long long
#define interface struct
#define pascal
#define cdecl
#define CALLBACK
#define WINAPI
#define CONST const
#define VOID void
#define IN
#define OUT
#define OPTIONAL
#define STRICT 1
#define IGNORE 0
#define INFINITE 0xffffffff
#define ERROR 0
#define NO_ERROR 0L
#define DELETE 0x00010000L
#define ABSOLUTE 1
#define RELATIVE 2
#define OPAQUE 2
#define TRANSPARENT 1
#define DIFFERENCE 11
#define Yield()
#define CreateWindow(name, style) CreateWindowExA(0, name, style)
#define GetMessage GetMessageA
#define GetObject GetObjectA
#define SendMessage SendMessageA
#ifndef __cplusplus
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#endif
