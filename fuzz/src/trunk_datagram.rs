//! Arbitrary datagrams: the messages of a trunk are complete or absent, and delivered at most once.

use std::collections::BTreeSet;

use base::{IfaceId, Time};
use cluster::AgentId;
use cluster::trunk::{Message, Outgoing, Trunk, TrunkOptions};

fn trunk(own: u16, encrypt: bool) -> Trunk {
    Trunk::new(TrunkOptions {
        own: AgentId(own),
        agents: 2,
        key: [7; 32],
        epoch: 1 << 40,
        encrypt,
        datagram: 512,
    })
}

/// A packet of `length` bytes whose content depends on its number.
fn packet(number: u32, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(number | 1).to_be_bytes()[at % 4]).collect()
}

/// Encryption, lengths of packets, changes of datagrams, a stray datagram and its segment size.
type Input = (bool, Vec<u16>, Vec<(u8, u16, u8)>, Vec<u8>, u16);

pub(crate) fn target(input: Input) {
    let (encrypt, lengths, changes, mut stray, segment) = input;
    let (mut sender, mut receiver) = (trunk(0, encrypt), trunk(1, encrypt));
    for (number, length) in lengths.iter().take(64).enumerate() {
        let packet = packet(number as u32, usize::from(*length));
        let (headers, payload) = packet.split_at(packet.len().min(40));
        let iface = IfaceId(number as u32);
        let message =
            Message { iface, due: Time::ZERO, version: 6, virtio: [1; 10], headers, payload };
        sender.put(AgentId(1), &message);
    }
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    while let Some(Outgoing { bytes, segment, .. }) = sender.next(Time::ZERO) {
        datagrams.extend(bytes.chunks(segment).map(<[u8]>::to_vec));
        sender.sent();
    }
    for (change, at, by) in changes {
        if datagrams.is_empty() {
            break;
        }
        let at = usize::from(at) % datagrams.len();
        let other = (at + usize::from(by)) % datagrams.len();
        match change % 4 {
            0 => datagrams.swap(at, other),
            1 => datagrams.push(datagrams[at].clone()),
            2 => drop(datagrams.remove(at)),
            _ => {
                let place = usize::from(by) % datagrams[at].len();
                datagrams[at][place] ^= 1 + by % 255;
            }
        }
    }
    let mut seen = BTreeSet::new();
    let mut check = |received: cluster::trunk::Received| {
        let number = received.iface.0;
        assert!(seen.insert(number), "message {number} was delivered twice");
        assert_eq!(received.packet(), packet(number, usize::from(lengths[number as usize])));
    };
    for datagram in &mut datagrams {
        let length = datagram.len();
        receiver.receive(Time::ZERO, datagram, length, &mut check);
    }
    receiver.receive(Time::ZERO, &mut stray, usize::from(segment), check);
}
