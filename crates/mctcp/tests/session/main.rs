//! Two sessions, joined by simulated TCP connections on the virtual clock: random schedules of
//! loss, delay and death, and every fault that the protocol provides for.

mod closing;
mod end;
mod faults;
mod lives;
mod random;
mod rates;
mod script;
mod tcp;
mod verdict;
mod world;
