//! Any bytes as control messages of both gateways: messages without the key have no effect, and
//! well-formed messages open if their tag is valid.

use std::sync::LazyLock;

use base::{Bytes, Time};
use bundler::association::{Association, Role, Sent};
use bundler::digest::Key;
use bundler::message::{self, Authenticator, Message};
use bundler::receivebox::{ReceiveBox, Settings};

static KEY: LazyLock<Key> = LazyLock::new(|| Key::from_secret("fuzz"));

pub(crate) fn target(data: &[u8]) {
    let id = message::bundle_of(data).unwrap_or(1);
    let mut receiver = ReceiveBox::new(2);
    let bundle = receiver.add(Time::ZERO, Settings { id, key: KEY.clone(), overhead: Bytes::ZERO });
    let mut sender = Association::new(Role::SendBox, id, &KEY, 1);
    let sent = Sent { period_log2: 3, bytes: 0, packets: 0 };
    for _ in 0..2 {
        receiver.on_message(Time::ZERO, &sender.heartbeat(Time::ZERO, sent));
        let report = receiver.poll().expect("the answer to a heartbeat");
        assert!(sender.receive(Time::ZERO, &report.payload).is_ok());
    }
    let before = receiver.status(bundle).expect("a bundle of the receivebox");
    receiver.on_message(Time::ZERO, data);
    assert!(sender.receive(Time::ZERO, data).is_err());
    assert_eq!(receiver.poll(), None);
    let after = receiver.status(bundle).expect("a bundle of the receivebox");
    assert_eq!((after.peer, after.period), (before.peer, before.period));

    let authenticator = Authenticator::new(&KEY);
    let mut signed = data.to_vec();
    authenticator.sign(&mut signed);
    if let Ok(message) = Message::open(&authenticator, &signed) {
        assert_eq!(message.seal(&authenticator), signed);
        receiver.on_message(Time::ZERO, &signed);
        let _ = sender.receive(Time::ZERO, &signed);
    }
}
