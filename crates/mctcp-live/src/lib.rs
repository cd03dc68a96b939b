//! MCTCP on real sockets: streams and listeners for tokio.
#![forbid(unsafe_code)]
