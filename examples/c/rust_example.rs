//! Timers in Rust, on libtvec-c: no shim and no crate. `rustc rust_example.rs`
use std::{ffi::c_void, ptr};

#[repr(C)]
pub struct Timer {
    next: *mut Timer,
    back: u64,
    expires: u64,
    fire: Option<unsafe extern "C" fn(*mut c_void, *mut Timer)>,
}
#[repr(C)]
pub struct Progress {
    fired: usize,
    caught_up: bool,
}
#[link(name = "tvec-c")]
extern "C" {
    fn tvec_wheel_new(now: u64) -> *mut c_void;
    fn tvec_wheel_free(wheel: *mut c_void);
    fn tvec_arm_after(wheel: *mut c_void, timer: *mut Timer, delay: u64) -> bool;
    fn tvec_cancel(timer: *mut Timer) -> bool;
    fn tvec_unlink(timer: *mut Timer) -> bool;
    fn tvec_advance(wheel: *mut c_void, until: u64, budget: usize) -> Progress;
}

/// The timer comes first, so that its address is that of its owner.
#[repr(C)]
struct Connection {
    idle: Timer,
    closed: u32,
}
/// The wheel points to the timer, so the connection is reached by a pointer and does not move.
struct Client(*mut Connection);
impl Client {
    fn new() -> Client {
        let idle = Timer { next: ptr::null_mut(), back: 0, expires: 0, fire: Some(on_idle) };
        Client(Box::into_raw(Box::new(Connection { idle, closed: 0 })))
    }
    fn idle(&self) -> *mut Timer {
        self.0.cast()
    }
}
impl Drop for Client {
    fn drop(&mut self) {
        unsafe {
            tvec_unlink(self.idle());
            drop(Box::from_raw(self.0));
        }
    }
}

unsafe extern "C" fn on_idle(_: *mut c_void, timer: *mut Timer) {
    (*timer.cast::<Connection>()).closed += 1; // it must not panic
}

fn main() {
    unsafe {
        let wheel = tvec_wheel_new(0);
        let mut clients: Vec<Client> = (0..1000).map(|_| Client::new()).collect();
        clients.iter().for_each(|c| assert!(!tvec_arm_after(wheel, c.idle(), 300)));
        clients.iter().for_each(|c| assert!(tvec_arm_after(wheel, c.idle(), 400))); // pushed back
        clients[..250].iter().for_each(|c| assert!(tvec_cancel(c.idle())));
        clients.truncate(900); // a hundred are dropped while they are armed
        assert_eq!(tvec_advance(wheel, 399, usize::MAX).fired, 0);
        let done = tvec_advance(wheel, 400, usize::MAX);
        let closed: u32 = clients.iter().map(|c| (*c.0).closed).sum();
        println!("{} fired, {} closed at tick 400", done.fired, closed);
        assert!(done.caught_up && done.fired == 650 && closed == 650);
        drop(clients);
        tvec_wheel_free(wheel);
    }
}
