//! Handling of failed allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status of a process that ran out of memory.
const STATUS: libc::c_int = 4;
const MESSAGE: &[u8] = b"error: out of memory: an allocation failed\n";

/// Called before the process ends; must not allocate.
static LAST_ACT: OnceLock<fn()> = OnceLock::new();
static ENDING: AtomicBool = AtomicBool::new(false);

/// The system's allocator, for `#[global_allocator]`. A failed allocation ends the process with
/// status 4 and a message, instead of SIGABRT.
#[derive(Debug)]
pub struct Allocator;

/// Sets a function that is called after a failed allocation, before the process ends. It
/// must not allocate.
pub fn before_exhausted_end(last_act: fn()) {
    // Only the first call has an effect.
    let _ = LAST_ACT.set(last_act);
}

#[cold]
fn exhausted() {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Called by `last_act` itself, or by another thread meanwhile: the caller aborts.
        return;
    }
    if let Some(last_act) = LAST_ACT.get() {
        last_act();
    }
    // SAFETY: the message lives for ever; `_exit` runs no code of this process.
    unsafe {
        libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(STATUS)
    }
}

fn checked(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        exhausted();
    }
    memory
}

// SAFETY: everything is passed on to the system's allocator, whose results are passed back.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        checked(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the contract of `GlobalAlloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}
