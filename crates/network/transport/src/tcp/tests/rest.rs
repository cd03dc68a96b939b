//! Ends at rest are packed, and later continue without a difference.

use super::*;
use crate::tcp::{Packer, Unpacker};

/// Packs an end and restores it. Returns the packed size.
fn pack(end: &mut Endpoint) -> usize {
    assert!(end.is_at_rest());
    let mut packer = Packer::default();
    end.pack(&mut packer);
    let back = Endpoint::unpack(&mut Unpacker::new(packer.bytes()));
    assert_eq!(format!("{back:?}"), format!("{end:?}"));
    *end = back;
    packer.bytes().len()
}

fn exchange(pipe: &mut Pipe) {
    pipe.transfer(300_000);
    pipe.end(Side::Server).write(5_000);
    pipe.flush();
    pipe.run(millis(2_000));
}

#[test]
fn ends_at_rest_come_back_as_they_were() {
    for control in [Control::Reno, Control::Cubic] {
        let config = Config { control, hystart: true, ecn: true, paced: true, seed: 7, ..reno() };
        let dropping = &[5, 6, 50, 200, 204];
        let mut pipe = Pipe::new(&config, millis(10)).established().dropping(dropping);
        for _ in 0..3 {
            exchange(&mut pipe);
            for side in [Side::Client, Side::Server] {
                let bytes = pack(pipe.end(side));
                assert!(bytes <= 400, "{control}: {bytes} bytes");
            }
        }
        assert!(pipe.end(Side::Client).statistics().retransmits >= 3);
    }
}

#[test]
fn is_not_at_rest_with_data_in_flight() {
    let mut pipe = Pipe::new(&reno(), millis(10));
    assert!(!pipe.end(Side::Client).is_at_rest(), "not established");
    let mut pipe = pipe.established();
    assert!(pipe.end(Side::Client).is_at_rest());
    pipe.end(Side::Client).write(1_000);
    assert!(!pipe.end(Side::Client).is_at_rest(), "unsent");
    pipe.flush();
    assert!(!pipe.end(Side::Client).is_at_rest(), "unacknowledged");
    pipe.run(millis(2_000));
    assert!(pipe.end(Side::Client).is_at_rest());
    let config = Config { control: Control::Bbr, ..reno() };
    let mut pipe = Pipe::new(&config, millis(10)).established();
    exchange(&mut pipe);
    assert!(!pipe.end(Side::Client).is_at_rest(), "too large to pack");
}
