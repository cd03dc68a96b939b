//! Both gateways against an attacker that reads all messages and may delay, replay, modify,
//! misdirect or drop them, across restarts of both.

use proptest::prelude::*;

use super::*;
use crate::association::Sent;
use crate::message::{Authenticator, Body, Message};

const BUNDLE: u32 = 7;
/// First incarnation of the sendbox; the first one of the receivebox is twice this.
const FIRST: u64 = 1000;

#[derive(Clone, Debug)]
enum Step {
    /// The sendbox sends a heartbeat.
    Heartbeat(u8),
    /// The receivebox receives a packet that ends every epoch.
    Packet,
    /// Delivers this earlier message, counted from the newest, to its receiver.
    Deliver(usize),
    /// Delivers it to its sender.
    Reflect(usize),
    /// Delivers it with a flipped bit.
    Flip(usize, usize),
    /// Delivers it truncated.
    Cut(usize, usize),
    RestartSender,
    RestartReceiver,
    Wait(u16),
}

fn any_step() -> impl Strategy<Value = Step> {
    let recent = || prop_oneof![3 => 0_usize..3, 1 => 0_usize..60];
    prop_oneof![
        6 => (0..=6_u8).prop_map(Step::Heartbeat),
        4 => Just(Step::Packet),
        16 => recent().prop_map(Step::Deliver),
        1 => recent().prop_map(Step::Reflect),
        1 => (recent(), any::<usize>()).prop_map(|(which, bit)| Step::Flip(which, bit)),
        1 => (recent(), any::<usize>()).prop_map(|(which, length)| Step::Cut(which, length)),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
        3 => (0..4000_u16).prop_map(Step::Wait),
    ]
}

/// The adopted incarnations of both gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beliefs {
    /// At the sendbox: the adopted receivebox.
    receiver: Option<u64>,
    /// At the receivebox: the adopted sendbox, and its period.
    sender: Option<u64>,
    period: Option<u32>,
}

struct World {
    now: Time,
    key: Key,
    sender: Association,
    receiver: ReceiveBox,
    index: BundleIndex,
    /// All messages sent so far.
    past: Vec<Vec<u8>>,
    /// Sequence number of the heartbeat that the receivebox accepted.
    heartbeat: u64,
    /// The receivebox's incarnation when the sendbox started, and vice versa: earlier incarnations
    /// can no longer be adopted.
    receiver_at_start: u64,
    sender_at_start: u64,
    acks_taken: std::collections::BTreeSet<(u64, u64)>,
    sender_told: u64,
    sender_changes: u64,
    receiver_changes: u64,
}

impl World {
    fn new() -> Self {
        let key = Key::from_secret("correct horse");
        let (receiver, index) = receiver(&key, 2 * FIRST);
        Self {
            now: Time::ZERO,
            sender: Association::new(Role::SendBox, BUNDLE, &key, FIRST),
            receiver,
            index,
            key,
            past: Vec::new(),
            heartbeat: 0,
            receiver_at_start: 2 * FIRST,
            sender_at_start: FIRST,
            acks_taken: std::collections::BTreeSet::new(),
            sender_told: 0,
            sender_changes: 0,
            receiver_changes: 0,
        }
    }

    fn beliefs(&self) -> Beliefs {
        let status = self.receiver.status(self.index).unwrap();
        Beliefs { receiver: self.sender.peer(), sender: status.peer, period: status.period }
    }

    fn read(&self, bytes: &[u8]) -> Message {
        Message::open(&Authenticator::new(&self.key), bytes).unwrap()
    }

    fn heartbeat(&mut self, period_log2: u8) {
        let sent = Sent { period_log2, bytes: 0, packets: 0 };
        let bytes = self.sender.heartbeat(self.now, sent);
        self.past.push(bytes);
    }

    fn packet(&mut self) {
        self.receiver.on_packet(self.now, self.index, 1000, 0);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.receiver.poll() {
            self.past.push(output.payload);
        }
    }

    fn wait(&mut self, millis: u16) {
        self.now += Span::from_millis(u64::from(millis));
        if self.receiver.next_wake().is_some_and(|at| at <= self.now) {
            self.receiver.on_wake(self.now);
        }
    }

    fn restart_sender(&mut self) {
        let incarnation = self.sender.incarnation() + 1;
        self.sender = Association::new(Role::SendBox, BUNDLE, &self.key, incarnation);
        self.receiver_at_start = self.receiver.incarnation;
        self.sender_told = 0;
        self.sender_changes = 0;
    }

    fn restart_receiver(&mut self) {
        let incarnation = self.receiver.incarnation + 1;
        (self.receiver, self.index) = receiver(&self.key, incarnation);
        self.sender_at_start = self.sender.incarnation();
        self.heartbeat = 0;
        self.receiver_changes = 0;
    }

    fn past(&self, which: usize) -> Option<Vec<u8>> {
        Some(self.past[self.past.len().checked_sub(which + 1)?].clone())
    }

    /// Delivers a message unchanged and checks the result.
    fn deliver(&mut self, bytes: &[u8]) {
        let (message, before) = (self.read(bytes), self.beliefs());
        if matches!(message.body, Body::Heartbeat(_)) {
            self.receiver.on_message(self.now, bytes);
            self.collect();
        } else {
            match self.sender.receive(self.now, bytes) {
                Ok(Received::Report { peer_restarted, .. }) => {
                    self.sender_told += u64::from(peer_restarted);
                }
                Ok(Received::Ack(_)) => {
                    assert_eq!(before.receiver, Some(message.incarnation));
                    assert_eq!(message.peer, self.sender.incarnation());
                    assert!(self.acks_taken.insert((message.incarnation, message.sequence)));
                }
                Ok(Received::Heartbeat { .. }) => panic!("a heartbeat for the sendbox"),
                Err(_) => {}
            }
        }
        self.check(&message, before);
    }

    fn check(&mut self, message: &Message, before: Beliefs) {
        let after = self.beliefs();
        if after.receiver != before.receiver {
            assert!(matches!(message.body, Body::Report(_)));
            assert_eq!(after.receiver, Some(message.incarnation));
            assert!(after.receiver > before.receiver, "back to a dead receivebox");
            assert!(after.receiver >= Some(self.receiver_at_start), "a dead receivebox");
            self.sender_changes += u64::from(before.receiver.is_some());
        }
        let heartbeat_before = self.heartbeat;
        if (after.sender, after.period) != (before.sender, before.period) {
            let Body::Heartbeat(heartbeat) = message.body else { panic!("no heartbeat") };
            assert_eq!(after.sender, Some(message.incarnation));
            assert_eq!(after.period, Some(1 << heartbeat.period_log2));
            assert_eq!(message.peer, self.receiver.incarnation);
            self.heartbeat = message.sequence;
        }
        if after.sender != before.sender {
            assert!(after.sender > before.sender, "back to a dead sendbox");
            assert!(after.sender >= Some(self.sender_at_start), "a dead sendbox");
            self.receiver_changes += u64::from(before.sender.is_some());
        } else if after.period != before.period {
            assert!(self.heartbeat > heartbeat_before, "back to an old period");
        }
        let counters = self.receiver.status(self.index).unwrap().counters;
        assert_eq!(counters.peer_restarts, self.receiver_changes);
        assert_eq!(self.sender_told, self.sender_changes);
    }

    /// Delivers a message that was never sent, which must have no effect.
    fn forge(&mut self, bytes: &[u8]) {
        let before = self.beliefs();
        assert!(self.sender.receive(self.now, bytes).is_err());
        self.receiver.on_message(self.now, bytes);
        assert_eq!(self.receiver.poll(), None);
        assert_eq!(self.beliefs(), before);
    }

    fn reflect(&mut self, bytes: &[u8]) {
        let before = self.beliefs();
        if matches!(self.read(bytes).body, Body::Heartbeat(_)) {
            assert_eq!(self.sender.receive(self.now, bytes), Err(Rejection::WrongDirection));
        } else {
            self.receiver.on_message(self.now, bytes);
            assert_eq!(self.receiver.poll(), None);
        }
        assert_eq!(self.beliefs(), before);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Heartbeat(period_log2) => self.heartbeat(period_log2),
            Step::Packet => self.packet(),
            Step::RestartSender => self.restart_sender(),
            Step::RestartReceiver => self.restart_receiver(),
            Step::Wait(millis) => self.wait(millis),
            Step::Deliver(which) | Step::Reflect(which) => {
                let Some(bytes) = self.past(which) else { return };
                if matches!(step, Step::Deliver(_)) {
                    self.deliver(&bytes);
                } else {
                    self.reflect(&bytes);
                }
            }
            Step::Flip(which, bit) => {
                let Some(mut bytes) = self.past(which) else { return };
                let bit = bit % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                self.forge(&bytes);
            }
            Step::Cut(which, length) => {
                let Some(bytes) = self.past(which) else { return };
                self.forge(&bytes[..length % bytes.len()]);
            }
        }
    }

    /// Delivers all messages since `from` in order, and their answers.
    fn deliver_since(&mut self, mut from: usize) {
        while let Some(bytes) = self.past.get(from).cloned() {
            self.deliver(&bytes);
            from += 1;
        }
    }

    /// After any history, the gateways are associated two heartbeats later.
    fn reconcile(&mut self) {
        for period_log2 in [3, 2] {
            let from = self.past.len();
            self.heartbeat(period_log2);
            self.deliver_since(from);
        }
        let (sender, receiver) = (self.sender.incarnation(), self.receiver.incarnation);
        let expected = Beliefs { receiver: Some(receiver), sender: Some(sender), period: Some(4) };
        assert_eq!(self.beliefs(), expected);
        let (from, taken) = (self.past.len(), self.acks_taken.len());
        self.packet();
        self.deliver_since(from);
        assert_eq!(self.acks_taken.len(), taken + 1);
    }
}

fn receiver(key: &Key, incarnation: u64) -> (ReceiveBox, BundleIndex) {
    let mut receiver = ReceiveBox::new(incarnation);
    let settings = Settings { id: BUNDLE, key: key.clone(), overhead: Bytes::ZERO };
    let index = receiver.add(Time::ZERO, settings);
    (receiver, index)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn rejects_old_and_forged_messages(steps in prop::collection::vec(any_step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.reconcile();
    }
}
