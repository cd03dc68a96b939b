//! The interface between protocol logic and its driver.

use crate::Time;

/// Logic without sockets, threads or clocks. A driver passes inputs and deadlines; the state
/// machine returns outputs and its next deadline.
///
/// `now` is logical time: at a wake-up it is the deadline itself, not the later time at which the
/// driver ran. The driver measures the difference (lateness), which is not an input.
pub trait StateMachine {
    /// Input from the driver.
    type Input;
    /// Output to the driver.
    type Output;

    /// Processes one input at `now`, which must not precede an earlier `now`.
    fn handle(&mut self, now: Time, input: Self::Input);
    /// The earliest deadline; `None` if only an input can change the state.
    fn next_wake(&self) -> Option<Time>;
    /// Handles the deadline that [`Self::next_wake`] returned, which is `now`.
    fn on_wake(&mut self, now: Time);
    /// The next output; the driver calls this until it returns `None`.
    fn poll(&mut self) -> Option<Self::Output>;
}
