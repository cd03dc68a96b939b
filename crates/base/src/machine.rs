//! One trait, two clocks: protocol logic as a state machine that is told the time.

use crate::Time;

/// Why a machine wants to be woken, for traces that explain idle wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeReason(pub &'static str);

/// Logic without sockets, threads or clocks. A driver passes inputs and deadlines; the machine
/// answers with outputs and its next deadline.
///
/// `now` is logical time: at a wake-up it is the deadline itself, never the moment at which the
/// driver got round to it. The difference (lateness) is measured by the driver and is no input.
pub trait Machine {
    /// What the driver feeds in.
    type In;
    /// What the machine hands out.
    type Out;

    /// Takes one input at `now`, which must not precede an earlier `now`.
    fn handle(&mut self, now: Time, input: Self::In);
    /// The earliest deadline, and what for. `None` when only an input can change anything.
    fn next_wake(&self) -> Option<(Time, WakeReason)>;
    /// Called with the deadline that `next_wake` gave.
    fn on_wake(&mut self, now: Time);
    /// The next output; called until it answers `None`.
    fn poll(&mut self) -> Option<Self::Out>;
}
