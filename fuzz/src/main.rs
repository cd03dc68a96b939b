//! The fuzz target that `FUZZ_TARGET` names during compilation, as a binary of libFuzzer.
#![no_main]

const TARGET: fuzz::Target = fuzz::find(env!("FUZZ_TARGET"));

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
