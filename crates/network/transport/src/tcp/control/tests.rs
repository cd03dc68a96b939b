mod bbr;
mod path;
mod rate;
mod windows;

use base::{Bytes, Span, Time};

use super::*;

pub(super) const MSS: u64 = 1_000;

pub(super) fn setup() -> Setup {
    Setup { mss: MSS as u32, initial_window: 10, seed: 1, ..Setup::default() }
}

#[test]
fn names_are_read_and_written() {
    for control in Control::ALL {
        assert_eq!(control.to_string().parse(), Ok(control));
    }
    let error = "vegas".parse::<Control>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown congestion control `vegas`; expected reno, cubic, bbr, bbr3, dctcp or prague"
    );
}

#[test]
fn controllers_are_small() {
    assert!(size_of::<Controller>() <= 240, "{}", size_of::<Controller>());
    assert!(size_of::<SentMark>() <= 32);
}
