#!/usr/bin/env python3
"""A timer from Python. The argument is where libtvec-c is."""

import ctypes
import sys

tvec = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libtvec-c.so.1")
wheel_new, arm_after, next_wakeup = tvec.tvec_wheel_new, tvec.tvec_arm_after, tvec.tvec_next_wakeup
wheel_new.restype, next_wakeup.restype = ctypes.c_void_p, ctypes.c_uint64

Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Timer(ctypes.Structure):
    _fields_ = [("next", ctypes.c_void_p), ("back", ctypes.c_uint64), ("expires", ctypes.c_uint64),
                ("fire", Callback)]


fired = []
on_idle = Callback(lambda wheel, timer: fired.append(tvec.tvec_now(ctypes.c_void_p(wheel))))
idle = Timer(fire=on_idle)
wheel = ctypes.c_void_p(wheel_new(ctypes.c_uint64(0)))
arm_after(wheel, ctypes.byref(idle), ctypes.c_uint64(1000))
while not fired:
    tvec.tvec_advance(wheel, ctypes.c_uint64(next_wakeup(wheel)), ctypes.c_size_t(64))
tvec.tvec_wheel_free(wheel)
print("fired at tick", *fired)
sys.exit(fired != [1000])
