//! The collector at work: files and interfaces in, archives on disk out. Threads, files and
//! sockets are here; what they carry is the `collector` crate's.
#![forbid(unsafe_code)]
