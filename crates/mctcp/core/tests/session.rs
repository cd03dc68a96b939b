//! Two sessions over simulated TCP connections on the virtual clock: random schedules of loss,
//! delay and failures, and every fault that the protocol handles.

mod closing;
mod connection;
mod end;
mod faults;
mod lives;
mod random;
mod rates;
mod script;
mod world;
