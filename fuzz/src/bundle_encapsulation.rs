//! Any bytes as encapsulated packets: none is accepted without the key, a packet of any bytes is
//! decapsulated unchanged and only once, and any changed bit is rejected.

use std::sync::LazyLock;

use base::{Bytes, Time};
use bundler::association::{Association, Received, Role, Sent};
use bundler::digest::Key;
use bundler::encapsulation::{self, Envelope, HEADER, Header, TAG};
use bundler::receivebox::{ReceiveBox, Settings};
use bundler::rejection::Rejection;

const NOW: Time = Time::ZERO;

static KEY: LazyLock<Key> = LazyLock::new(|| Key::from_secret("fuzz"));

/// A receivebox that has adopted incarnation 1.
fn receiver(id: u32) -> ReceiveBox {
    let mut receiver = ReceiveBox::new(2);
    receiver.add(NOW, Settings { id, key: KEY.clone(), overhead: Bytes::ZERO });
    let mut sender = Association::new(Role::SendBox, id, &KEY, 1);
    for _ in 0..2 {
        let sent = Sent { period_log2: 3, bytes: 0, packets: 0 };
        receiver.on_message(NOW, &sender.heartbeat(NOW, sent));
        let report = receiver.poll().expect("the answer to a heartbeat");
        let received = sender.receive(NOW, &report.payload);
        assert!(matches!(received, Ok(Received::Report { .. })));
    }
    receiver
}

pub(crate) fn target(data: &[u8]) {
    let bundle = encapsulation::bundle_of(data).unwrap_or(1);
    let mut receiver = receiver(bundle);
    assert!(receiver.on_encapsulated(NOW, &mut data.to_vec()).is_err());
    let Some((sequence, packet)) = data.split_first_chunk() else { return };
    let sequence = u64::from_be_bytes(*sequence).max(1);
    let header = Header { bundle, incarnation: 1, sequence };
    let mut payload = [&[0; HEADER], packet].concat();
    Envelope::new(header, &KEY, 2).seal(&mut payload);
    if packet.is_empty() {
        assert!(receiver.on_encapsulated(NOW, &mut payload).is_err());
        return;
    }
    assert_eq!(Header::parse(&payload), Ok(header));
    let mut changed = payload.clone();
    let bit = sequence as usize % (changed.len() * 8);
    changed[bit / 8] ^= 1 << (bit % 8);
    assert!(receiver.on_encapsulated(NOW, &mut changed).is_err());
    let mut opened = payload.clone();
    let (_, inner) = receiver.on_encapsulated(NOW, &mut opened).expect("authentic and new");
    assert_eq!(inner, HEADER..payload.len() - TAG);
    assert_eq!(&opened[inner], packet);
    assert_eq!(receiver.on_encapsulated(NOW, &mut payload), Err(Rejection::Replayed));
}
