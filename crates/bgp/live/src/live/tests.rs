use std::net::Ipv4Addr;
use std::thread;

use collector::Segment;
use collector::decapsulate::{Decapsulator, Settings};
use sys::namespace::{self, Kinds};

use super::*;

#[test]
fn restores_vlan_tags() {
    let data: Vec<u8> = (0..60).collect();
    let mut scratch = Vec::new();
    let tag = Some(Tag { protocol: 0x88a8, control: 0x2007 });
    let packet = Packet {
        time: 5,
        data: &data,
        length: 100,
        tag,
        outgoing: false,
        without_checksum: true,
        offload: None,
    };
    let tagged = frame(LinkType::ETHERNET, 3, &packet, &mut scratch);
    assert!(tagged.without_checksum);
    assert_eq!(tagged.data[..12], data[..12]);
    assert_eq!(tagged.data[12..16], [0x88, 0xa8, 0x20, 0x07]);
    assert_eq!((&tagged.data[16..], tagged.length), (&data[12..], 104));
    let plain = Packet { tag: None, ..packet };
    assert_eq!(frame(LinkType::ETHERNET, 3, &plain, &mut scratch).data, data);
}

#[test]
fn distinguishes_missing_interface_from_denied_permission() {
    let missing = Interface::open("no-such-if", 0, &Wanted::default(), &Options::default());
    assert!(matches!(missing, Err(Error::NoInterface(_))));
}

/// An Ethernet frame with a SYN to port 179, in VXLAN.
fn vxlan() -> Vec<u8> {
    let mut packet = vec![8, 0, 0, 0, 0, 0, 42, 0];
    packet.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    packet.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0xc0, 0, 0, 179, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    packet
}

#[test]
fn reads_received_tunnels_like_captured_ones() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(mut tunnel) = Tunnel::bind(address.parse().unwrap(), 4) else {
            eprintln!("SKIPPED {address} is not here");
            continue;
        };
        let from = UdpSocket::bind(address).unwrap();
        from.send_to(&vxlan(), tunnel.local()).unwrap();
        // The test uses the VXLAN port instead of the assigned one.
        tunnel.local.set_port(4789);
        let mut decapsulator = Decapsulator::new(Settings::default());
        let mut segments = 0;
        let mut each = |item: Item<'_>| {
            let Item::Frame(frame) = item else { return };
            decapsulator.segments(&frame, &mut |segment: &Segment<'_>| {
                assert_eq!(segment.destination, (Ipv4Addr::new(10, 0, 0, 2), 179).into());
                segments += 1;
            });
        };
        let progress = tunnel.step(Duration::from_secs(5), &mut each).unwrap();
        assert_eq!(progress, Progress::More);
        let idle = tunnel.step(Duration::ZERO, &mut each).unwrap();
        assert_eq!((segments, idle), (1, Progress::Waiting), "{:?}", decapsulator.counters());
    }
}

#[test]
fn counts_dropped_datagrams() {
    let mut tunnel = Tunnel::bind("127.0.0.1:0".parse().unwrap(), 4).unwrap();
    sockopt::set_socket_recv_buffer_size(&tunnel.socket, 4096).unwrap();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        from.send_to(&[0; 1000], tunnel.local()).unwrap();
    }
    let (mut frames, mut dropped) = (0, 0);
    let mut each = |item: Item<'_>| match item {
        Item::Frame(_) => frames += 1,
        Item::Dropped { packets, .. } => dropped += packets,
        Item::Trouble(error) => panic!("{error}"),
    };
    while tunnel.step(Duration::ZERO, &mut each).unwrap() == Progress::More {}
    tunnel.ask(&mut each).unwrap();
    assert!(frames > 0 && dropped > 0 && frames + dropped == 100, "{frames} {dropped}");
}

struct Count<'a> {
    frames: usize,
    pauses: usize,
    clocks: usize,
    stop: &'a AtomicBool,
    enough: usize,
}

impl Handler for Count<'_> {
    fn item(&mut self, item: Item<'_>) {
        if let Item::Frame(frame) = item {
            self.frames += usize::from(frame.data.len() > 54);
        }
    }

    fn pause(&mut self, clock: Clock) {
        self.pauses += 1;
        self.clocks += usize::from(matches!(clock, Clock::Live(_)));
        if self.frames >= self.enough && self.clocks > 0 {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn captures_wanted_packets() {
    let work = || {
        if let Err(error) = namespace::unshare(Kinds::NET) {
            return eprintln!("SKIPPED an_interface_shows: no network namespace: {error}");
        }
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        if !up.is_ok_and(|status| status.success()) {
            return eprintln!("SKIPPED an_interface_shows: no `ip`");
        }
        let interface = Interface::open("lo", 0, &Wanted::default(), &Options::default()).unwrap();
        let bgp = std::net::TcpListener::bind("127.0.0.1:179").unwrap();
        let other = std::net::TcpListener::bind("127.0.0.1:180").unwrap();
        let mut streams = Vec::new();
        for listener in [&bgp, &other] {
            let mut stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            std::io::Write::write_all(&mut stream, &[0xff; 100]).unwrap();
            streams.push((stream, listener.accept().unwrap()));
        }
        let stop = AtomicBool::new(false);
        let mut count = Count { frames: 0, pauses: 0, clocks: 0, stop: &stop, enough: 1 };
        run(&mut [Source::Interface(interface)], &mut count, &stop).unwrap();
        // SYN and SYN with ACK carry options: longer than 54 bytes as well.
        assert!((1..=5).contains(&count.frames), "{}", count.frames);
    };
    thread::spawn(work).join().unwrap();
}
