//! Published evaluations as labs: run, measured, set beside what the paper printed.
#![forbid(unsafe_code)]
