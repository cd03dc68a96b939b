use super::*;

const SENT: Sent = Sent { period_log2: 3, bytes: 100, packets: 2 };
const ACK: Ack = Ack { digest: 8, received_at: 1, bytes_received: 50, packets_received: 1 };

fn key() -> Key {
    Key::from_secret("correct horse")
}

fn sender(incarnation: u64) -> Association {
    Association::new(Role::SendBox, 7, &key(), incarnation)
}

fn receiver(incarnation: u64) -> Association {
    Association::new(Role::ReceiveBox, 7, &key(), incarnation)
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// Delivers a heartbeat; returns whether it was adopted, whether it reported a restart, and
/// the encoded report.
fn ask(receiver: &mut Association, now: Time, heartbeat: &[u8]) -> (bool, bool, Vec<u8>) {
    match receiver.receive(now, heartbeat).unwrap() {
        Received::Heartbeat { heartbeat, question, adopted, peer_restarted } => {
            let period = adopted.then_some(heartbeat.period_log2);
            (adopted, peer_restarted, receiver.report(now, question, period, (50, 1)))
        }
        other => panic!("{other:?}"),
    }
}

/// Delivers one heartbeat and its report.
fn exchange(sender: &mut Association, receiver: &mut Association, now: Time) -> (bool, bool) {
    let (_, receiver_told, report) = ask(receiver, now, &sender.heartbeat(now, SENT));
    match sender.receive(now, &report).unwrap() {
        Received::Report { peer_restarted, .. } => (peer_restarted, receiver_told),
        other => panic!("{other:?}"),
    }
}

fn introduced() -> (Association, Association) {
    let (mut sender, mut receiver) = (sender(10), receiver(20));
    assert_eq!(exchange(&mut sender, &mut receiver, at(0)), (false, false));
    assert_eq!(exchange(&mut sender, &mut receiver, at(1)), (false, false));
    assert_eq!((sender.peer(), receiver.peer()), (Some(20), Some(10)));
    (sender, receiver)
}

#[test]
fn answers_but_does_not_adopt_heartbeat_without_receiver() {
    let (mut sender, mut receiver) = (sender(10), receiver(20));
    let (adopted, _, report) = ask(&mut receiver, at(3), &sender.heartbeat(at(0), SENT));
    assert!(!adopted);
    assert_eq!(receiver.peer(), None);
    assert_eq!(receiver.ack(ACK), None);
    let Received::Report { report, .. } = sender.receive(at(5), &report).unwrap() else {
        panic!("no report")
    };
    assert_eq!((report.answers, report.sent_at, report.received_at), (1, 0, 3_000_000));
    assert_eq!((report.period_log2, report.bytes_received), (None, 50));
    let (adopted, _, report) = ask(&mut receiver, at(6), &sender.heartbeat(at(6), SENT));
    assert!(adopted);
    let Received::Report { report, .. } = sender.receive(at(7), &report).unwrap() else {
        panic!("no report")
    };
    assert_eq!(report.period_log2, Some(3));
}

#[test]
fn accepts_each_ack_once_in_any_order() {
    let (mut sender, mut receiver) = introduced();
    let acks: Vec<_> = (0..50).map(|_| receiver.ack(ACK).unwrap()).collect();
    for ack in acks.iter().rev() {
        assert_eq!(sender.receive(at(2), ack), Ok(Received::Ack(ACK)));
        assert_eq!(sender.receive(at(2), ack), Err(Rejection::Replayed));
    }
    assert_eq!(sender.rejections().replayed, 50);
}

#[test]
fn rejects_acks_older_than_the_window() {
    let (mut sender, mut receiver) = introduced();
    let old = receiver.ack(ACK).unwrap();
    for _ in 0..3000 {
        let ack = receiver.ack(ACK).unwrap();
        assert!(sender.receive(at(2), &ack).is_ok());
    }
    assert_eq!(sender.receive(at(2), &old), Err(Rejection::TooOld));
    assert_eq!(sender.rejections().late, 1);
}

#[test]
fn reports_receivebox_restart_once_and_rejects_its_old_messages() {
    let (mut sender, mut before) = introduced();
    let old_ack = before.ack(ACK).unwrap();
    let heartbeat = sender.heartbeat(at(2), SENT);
    let (_, _, old_report) = ask(&mut before, at(2), &heartbeat);
    let mut receiver = receiver(21);
    assert_eq!(exchange(&mut sender, &mut receiver, at(1000)), (true, false));
    assert_eq!((sender.peer(), receiver.peer()), (Some(21), None));
    assert_eq!(exchange(&mut sender, &mut receiver, at(1001)), (false, false));
    assert_eq!(receiver.peer(), Some(10));
    assert_eq!(sender.receive(at(1002), &old_ack), Err(Rejection::StaleIncarnation));
    assert_eq!(sender.receive(at(1002), &old_report), Err(Rejection::StaleIncarnation));
    assert_eq!(sender.peer(), Some(21));
    let ack = receiver.ack(ACK).unwrap();
    assert_eq!(sender.receive(at(1003), &ack), Ok(Received::Ack(ACK)));
}

#[test]
fn reports_sendbox_restart_once_and_rejects_its_old_messages() {
    let (mut before, mut receiver) = introduced();
    let unsent = before.heartbeat(at(2), SENT);
    let mut sender = sender(11);
    let old_ack = receiver.ack(ACK).unwrap();
    assert_eq!(exchange(&mut sender, &mut receiver, at(3)), (false, false));
    assert_eq!(receiver.peer(), Some(10), "not yet");
    assert_eq!(sender.receive(at(3), &old_ack), Err(Rejection::StaleIncarnation));
    assert_eq!(exchange(&mut sender, &mut receiver, at(4)), (false, true));
    assert_eq!(receiver.peer(), Some(11));
    // It was never delivered before, is authentic, and contains the receivebox.
    let (adopted, restarted, report) = ask(&mut receiver, at(5), &unsent);
    assert!(!adopted && !restarted);
    assert_eq!(receiver.peer(), Some(11));
    assert_eq!(sender.receive(at(5), &report), Err(Rejection::StaleIncarnation));
}

#[test]
fn delayed_report_does_not_revive_stopped_receivebox() {
    let (mut sender, mut receiver) = introduced();
    let (_, _, report) = ask(&mut receiver, at(10), &sender.heartbeat(at(10), SENT));
    assert_eq!(sender.receive(at(5011), &report), Err(Rejection::StaleAnswer));
    assert_eq!(sender.rejections().stale, 1);
}

#[test]
fn rejects_overtaken_heartbeats_and_reports() {
    let (mut sender, mut receiver) = introduced();
    let [first, second] =
        [4, 5].map(|period_log2| sender.heartbeat(at(10), Sent { period_log2, ..SENT }));
    let (adopted, _, late) = ask(&mut receiver, at(11), &second);
    assert!(adopted);
    assert_eq!(receiver.receive(at(12), &first), Err(Rejection::Overtaken));
    assert_eq!(receiver.receive(at(12), &second), Err(Rejection::Replayed));
    let (_, _, newest) = ask(&mut receiver, at(13), &sender.heartbeat(at(13), SENT));
    assert!(sender.receive(at(14), &newest).is_ok());
    assert_eq!(sender.receive(at(14), &late), Err(Rejection::Overtaken));
}

#[test]
fn rejects_messages_sent_back_to_their_sender() {
    let (mut sender, mut receiver) = introduced();
    let (heartbeat, ack) = (sender.heartbeat(at(2), SENT), receiver.ack(ACK).unwrap());
    assert_eq!(sender.receive(at(2), &heartbeat), Err(Rejection::WrongDirection));
    assert_eq!(receiver.receive(at(2), &ack), Err(Rejection::WrongDirection));
}

#[test]
fn rejects_messages_of_another_bundle_with_the_same_key() {
    let (mut sender, _) = introduced();
    let mut other = Association::new(Role::ReceiveBox, 8, &key(), 20);
    let heartbeat = sender.heartbeat(at(2), SENT);
    assert_eq!(other.receive(at(2), &heartbeat), Err(Rejection::UnknownBundle(7)));
}

#[test]
fn the_window_forgets_what_it_leaves() {
    let mut window = ReplayWindow::<3>::default();
    for sequence in [1, 64, 63, 128, 129] {
        assert_eq!(window.take(sequence), Ok(()), "{sequence}");
        assert_eq!(window.take(sequence), Err(Rejection::Replayed), "{sequence}");
    }
    assert_eq!(window.take(1), Err(Rejection::TooOld));
    assert_eq!(window.take(2), Ok(()));
    assert_eq!(window.take(u64::MAX), Ok(()));
    assert_eq!(window.take(u64::MAX), Err(Rejection::Replayed));
    assert_eq!(window.take(129), Err(Rejection::TooOld));
    // These numbers use the same bits as earlier ones.
    assert_eq!(window.take(u64::MAX - 127), Ok(()));
    assert_eq!(window.take(u64::MAX - 128), Err(Rejection::TooOld));
}

proptest::proptest! {
    /// Compares with the set of all accepted numbers.
    #[test]
    fn the_window_takes_each_number_once(steps: Vec<(bool, u8)>) {
        let mut window = ReplayWindow::<3>::default();
        let (mut taken, mut highest) = (std::collections::BTreeSet::new(), 0_u64);
        for (ahead, by) in steps {
            let by = u64::from(by);
            let sequence = if ahead { highest + by } else { highest.saturating_sub(by) };
            let expected = if sequence + 128 <= highest {
                Err(Rejection::TooOld)
            } else if taken.contains(&sequence) {
                Err(Rejection::Replayed)
            } else if sequence == 0 {
                // 0 is not a sequence number; the window ignores it.
                continue;
            } else {
                Ok(())
            };
            proptest::prop_assert_eq!(window.take(sequence), expected);
            if expected.is_ok() {
                taken.insert(sequence);
                highest = highest.max(sequence);
            }
        }
    }
}
