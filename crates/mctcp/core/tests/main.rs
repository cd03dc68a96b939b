//! Sessions of MCTCP, over connections that the tests control.

mod handshake;
mod schedule;
mod session;
