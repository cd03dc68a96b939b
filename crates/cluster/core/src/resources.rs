//! The resources of a machine.

use base::{Bandwidth, Bytes};

/// The resources of a machine that are not reserved by a lab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resources {
    pub cores: f64,
    pub memory: Bytes,
    /// Rate of the interface of its agent; `None` if the kernel does not report one (virtual
    /// interfaces).
    pub nic: Option<Bandwidth>,
    /// Max rate of emulated traffic, both directions together; `None` if not limited.
    pub traffic: Option<Bandwidth>,
    pub hosts: u32,
}
