//! Tables that BGP speakers and senders of mirrored packets can fill: keys that collide under a
//! hash without a secret key must not cost more than other keys.

use std::net::{IpAddr, Ipv6Addr};

use base::Time;
use bgp::Asn;
use bgp::bmp::{self, PeerHeader};
use bgp::mrt::{self, Form};
use collector::capture::write::Wrapper;
use collector::input;
use collector::{Event, Frame, LinkType, MirrorId, Peering, PeeringId, Sink};
use collector_live::pipeline::{Pipeline, Settings};

/// Sets of numbered addresses: with equal `FxHash` values, or with different ones.
#[derive(Clone, Copy)]
enum Keys {
    /// The first half cancels the constant with which the hash of 16 octets starts: all addresses
    /// of this /64 collide.
    Octets,
    /// As two 64-bit words: the upper one compensates for the effect of the lower one.
    Words,
    Random,
}

/// Multiplier and first constant of `rustc-hash` 2.
const MULTIPLIER: u64 = 0xf135_7aea_2e62_a9c5;
const SEED: u64 = 0x243f_6a88_85a3_08d3;

impl Keys {
    fn address(self, number: u64) -> Ipv6Addr {
        let low = number + 1;
        let high = match self {
            Self::Octets => SEED.swap_bytes(),
            Self::Words => (0x2001_0db8_u64 << 32).wrapping_sub(low.wrapping_mul(MULTIPLIER)),
            Self::Random => 0x2001_0db8 << 32 | number.wrapping_mul(MULTIPLIER) >> 40,
        };
        Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
    }
}

/// The other end, above all of these addresses.
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfeff, 0, 0, 0, 0, 0, 0, 1);
const KEEPALIVE: [u8; 19] =
    [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 19, 4];

struct Nothing;

impl Sink for Nothing {
    fn event(&mut self, _: &Peering, _: &Event<'_>) {}
}

fn time(number: u64) -> Time {
    Time::from_nanos(1_700_000_000_000_000_000 + number * 1000)
}

fn ethernet(number: u64, data: &[u8], each: &mut impl FnMut(&Frame<'_>)) {
    each(&Frame::whole(time(number), LinkType::ETHERNET, data));
}

/// An IPv6 packet in an Ethernet frame.
fn ipv6(from: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend(from.octets());
    bytes.extend(ROUTER.octets());
    bytes.extend(payload);
    bytes
}

fn run_frames(frames: &[Vec<u8>]) -> u64 {
    let mut pipeline = Pipeline::new(Settings::default(), Nothing);
    let begin = sys::clock::thread_cpu();
    for (number, bytes) in frames.iter().enumerate() {
        ethernet(number as u64, bytes, &mut |frame| pipeline.frame(frame));
    }
    sys::clock::thread_cpu() - begin
}

/// Processor time for filling a table with this number of keys.
type Fill = fn(Keys, u64) -> u64;

/// One session per key: connections, pairs of addresses, addresses.
fn sessions(keys: Keys, count: u64) -> u64 {
    let (mut wrapper, mut frames) = (Wrapper::new(), Vec::new());
    for number in 0..count {
        let from = IpAddr::V6(keys.address(number));
        wrapper.message(time(number), from, ROUTER.into(), &KEEPALIVE, &mut |frame| {
            frames.push(frame.data.to_vec());
        });
    }
    run_frames(&frames)
}

fn fragments(keys: Keys, count: u64) -> u64 {
    let frames: Vec<_> = (0..count)
        .map(|number| {
            ipv6(keys.address(number), 44, &[6, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0])
        })
        .collect();
    run_frames(&frames)
}

/// Clones by GRE with sequence numbers: tunnels, and streams of clones.
fn tunnels(keys: Keys, count: u64) -> u64 {
    let (mut wrapper, mut segment) = (Wrapper::new(), Vec::new());
    let from = Ipv6Addr::LOCALHOST.into();
    wrapper.message(time(0), from, ROUTER.into(), &KEEPALIVE, &mut |frame| {
        segment = frame.data[14..].to_vec();
    });
    let frames: Vec<_> = (0..count)
        .map(|number| {
            let header = [0x10, 0, 0x86, 0xdd, 0, 0, 0, 1];
            ipv6(keys.address(number), 47, &[&header[..], &segment].concat())
        })
        .collect();
    run_frames(&frames)
}

fn wrapped(keys: Keys, count: u64) -> u64 {
    let mut wrapper = Wrapper::new();
    let begin = sys::clock::thread_cpu();
    for number in 0..count {
        let from = IpAddr::V6(keys.address(number));
        wrapper.message(time(number), from, ROUTER.into(), &KEEPALIVE, &mut |_| {});
    }
    sys::clock::thread_cpu() - begin
}

fn monitored(keys: Keys, count: u64) -> u64 {
    let mut bytes = Vec::new();
    for number in 0..count {
        let header = PeerHeader {
            kind: 0,
            flags: 0x80,
            distinguisher: 0,
            octets: keys.address(number).octets(),
            asn: Asn(65_001),
            id: 1,
            seconds: 1,
            microseconds: 0,
        };
        bmp::write::route_monitoring(&mut bytes, &header, &KEEPALIVE);
    }
    let mut input = input::bmp::Input::new(MirrorId(0), PeeringId(0));
    let begin = sys::clock::thread_cpu();
    input.read(&bytes, true, &mut Nothing);
    let cost = sys::clock::thread_cpu() - begin;
    assert_eq!(input.peerings().len() as u64, count);
    cost
}

fn archived(keys: Keys, count: u64) -> u64 {
    let mut bytes = Vec::new();
    let form = Form { four_octet_as: true, local: false, add_path: false };
    for number in 0..count {
        let (peer, local) = (keys.address(number).into(), ROUTER.into());
        let session = mrt::Session::new(Asn(65_001), Asn(65_000), peer, local);
        let kind = mrt::kind::BGP4MP;
        mrt::write::message(&mut bytes, time(number), kind, &session, form, &KEEPALIVE);
    }
    let mut input = input::mrt::Input::new(MirrorId(0), PeeringId(0));
    let begin = sys::clock::thread_cpu();
    input.read(&bytes, true, &mut Nothing);
    let cost = sys::clock::thread_cpu() - begin;
    assert_eq!(input.peerings().len() as u64, count);
    cost
}

/// Compares the costs with those of addresses that do not collide, in processor time of this
/// thread, the minimum of two runs each: other load of the host hardly affects this.
fn check(name: &str, fill: Fill, keys: Keys) {
    for count in [2_000, 4_000, 8_000] {
        let least = |keys| (0..2).map(|_| fill(keys, count)).min().unwrap_or_default();
        let (colliding, random) = (least(keys), least(Keys::Random));
        assert!(
            2 * colliding < 5 * random + 10_000_000,
            "{name}: {count} colliding keys take {colliding} ns, others {random} ns"
        );
    }
}

#[test]
fn handles_colliding_keys_in_same_time() {
    check("connections", sessions, Keys::Words);
    check("sessions", sessions, Keys::Octets);
    check("fragments", fragments, Keys::Octets);
    check("tunnels", tunnels, Keys::Octets);
    check("wrapped connections", wrapped, Keys::Octets);
    check("BMP peers", monitored, Keys::Octets);
    check("MRT peers", archived, Keys::Octets);
}
