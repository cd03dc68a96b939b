use std::net::UdpSocket;
use std::thread;

use super::*;
use crate::namespace::testing::in_new_net;
use crate::netlink::{Batch, LOOPBACK, LinkSettings, Socket};

/// Runs `work` in a new network namespace with the loopback interface up.
fn alone(test: &str, work: impl FnOnce() + Send) {
    in_new_net(test, || {
        let mut batch = Batch::new();
        batch.set_link(LOOPBACK, &LinkSettings { up: Some(true), ..LinkSettings::default() });
        Socket::open().unwrap().submit(batch).unwrap();
        work();
    });
}

fn options() -> Options {
    Options { block: 1 << 16, blocks: 4, timeout: Duration::from_millis(1), ..Options::default() }
}

fn send(socket: &UdpSocket, numbers: std::ops::Range<u32>) {
    let to = socket.local_addr().unwrap();
    for number in numbers {
        socket.send_to(&number.to_be_bytes(), to).unwrap();
    }
}

/// Numbers in the packets that arrive within some time; loopback shows each as sent
/// and as received.
fn receive(ring: &mut Ring) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some(mut block) = ring.next_block(Duration::from_millis(100)).unwrap() {
        while let Some(packet) = block.next_packet() {
            assert_eq!(packet.length as usize, packet.data.len());
            assert!(packet.time > 1_600_000_000_000_000_000 && packet.tag.is_none());
            if !packet.outgoing && packet.data.len() == 14 + 20 + 8 + 4 {
                numbers.push(u32::from_be_bytes(*packet.data.last_chunk().unwrap()));
            }
        }
    }
    numbers
}

#[test]
fn packets_come_in_order_and_drops_are_counted() {
    alone("packets_come_in_order", || {
        // A block is closed 1 ms after its first packet, so a sender that waits for a CPU needs one
        // for each of its time slices.
        let mut ring = Ring::open("lo", &Options { blocks: 64, ..options() }).unwrap();
        assert_eq!(ring.link(), libc::ARPHRD_LOOPBACK);
        assert_eq!(link_of("lo").unwrap(), ring.link());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        send(&socket, 0..300);
        assert_eq!(receive(&mut ring), (0..300).collect::<Vec<_>>());
        let statistics = ring.statistics().unwrap();
        assert_eq!((statistics.packets, statistics.drops), (600, 0), "{statistics:?}");
        let mut ring = Ring::open("lo", &options()).unwrap();
        // More than four blocks hold; the received packets are in order, and the
        // others are counted.
        send(&socket, 0..20_000);
        let numbers = receive(&mut ring);
        assert!(numbers.is_sorted() && numbers.len() < 20_000);
        let statistics = ring.statistics().unwrap();
        assert_eq!(statistics.packets, 40_000);
        assert!(statistics.drops > 0 && statistics.freezes > 0, "{statistics:?}");
        send(&socket, 7..8);
        assert_eq!(receive(&mut ring), [7]);
    });
}

#[test]
fn filters_choose() {
    alone("filters_choose", || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let step = |code, jump_true, jump_false, operand| Instruction {
            code,
            jump_true,
            jump_false,
            operand,
        };
        // The last octet of the number is at 14 + 20 + 8 + 3: accept the packet if it is 5.
        let filter = vec![
            step(0x30, 0, 0, 45),
            step(0x15, 0, 1, 5),
            step(6, 0, 0, 65_535),
            step(6, 0, 0, 0),
        ];
        let mut ring = Ring::open("lo", &Options { filter, ..options() }).unwrap();
        send(&socket, 0..600);
        assert_eq!(receive(&mut ring), [5, 261, 517]);
        let wrong = Options { filter: vec![step(0xffff, 0, 0, 0)], ..options() };
        assert_eq!(Ring::open("lo", &wrong).unwrap_err().errno(), Some(libc::EINVAL));
    });
}

#[test]
fn a_group_shares_packets() {
    alone("a_group_shares_packets", || {
        // See above about the number of blocks.
        let options = Options { fanout: Some(7), blocks: 64, ..options() };
        let mut rings = [0; 2].map(|_| Ring::open("lo", &options).unwrap());
        let sockets: Vec<_> = (0..16).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for socket in &sockets {
            send(socket, 0..10);
        }
        let counts = rings.each_mut().map(|ring| receive(ring).len());
        assert_eq!(counts[0] + counts[1], 160);
        assert!(counts.iter().all(|count| count % 10 == 0 && *count > 0), "{counts:?}");
    });
}

#[test]
fn no_interface_no_ring() {
    let missing = Ring::open("no-such-if", &options()).unwrap_err();
    assert_eq!(missing.errno(), Some(libc::ENODEV));
}

#[test]
fn super_packets_come_with_their_header() {
    use std::io::{Read, Write};

    alone("super_packets_come_with_their_header", || {
        let more = Options { incoming_only: true, offload: true, ..options() };
        let mut ring = Ring::open("lo", &Options { block: 1 << 18, ..more }).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let read = thread::spawn(move || receiver.read_to_end(&mut Vec::new()).unwrap());
        sender.write_all(&vec![0; 1 << 20]).unwrap();
        drop(sender);
        assert_eq!(read.join().unwrap(), 1 << 20);
        let mut largest = 0;
        while let Some(mut block) = ring.next_block(Duration::from_millis(100)).unwrap() {
            while let Some(packet) = block.next_packet() {
                assert!(!packet.outgoing);
                // Packets on loopback have incomplete checksums, here with offsets of TCP.
                let header = packet.offload.unwrap();
                let start = u16::from_ne_bytes([header[6], header[7]]);
                assert_eq!((header[0] & 1, start, header[8]), (1, 14 + 20, 16));
                assert!(packet.without_checksum);
                largest = largest.max(packet.length);
            }
        }
        assert!(largest > 14 + 20, "{largest}");
    });
}
