use proptest::prelude::*;

use super::*;

fn authenticator() -> Authenticator {
    Authenticator::new(&Key::from_secret("correct horse"))
}

fn any_body() -> impl Strategy<Value = Body> {
    let heartbeat =
        (0..=MAX_PERIOD_LOG2, any::<[u64; 4]>()).prop_map(|(period_log2, [b, p, s, a])| {
            Body::Heartbeat(Heartbeat {
                period_log2,
                bytes_sent: b,
                packets_sent: p,
                sent_at: s,
                answers: a,
            })
        });
    let period = proptest::option::of(0..=MAX_PERIOD_LOG2);
    let report = (period, any::<[u64; 5]>()).prop_map(|(period_log2, [a, s, r, b, p])| {
        Body::Report(Report {
            answers: a,
            sent_at: s,
            period_log2,
            received_at: r,
            bytes_received: b,
            packets_received: p,
        })
    });
    let ack = any::<[u64; 4]>().prop_map(|[digest, received_at, b, p]| {
        Body::Ack(Ack { digest, received_at, bytes_received: b, packets_received: p })
    });
    prop_oneof![heartbeat, report, ack]
}

fn any_message() -> impl Strategy<Value = Message> {
    let numbers = (any::<u32>(), 1..u64::MAX, any::<u64>(), 1..u64::MAX);
    (numbers, any_body()).prop_map(|((bundle, incarnation, peer, sequence), body)| Message {
        bundle,
        incarnation,
        peer,
        sequence,
        body,
    })
}

/// Layout, derived key and tag as computed by another implementation of HMAC.
#[test]
fn heartbeat_matches_reference_bytes() {
    let message = Message {
        bundle: 0x0102_0304,
        incarnation: 0x1112_1314_1516_1718,
        peer: 0x2122_2324_2526_2728,
        sequence: 5,
        body: Body::Heartbeat(Heartbeat {
            period_log2: 7,
            bytes_sent: 1000,
            packets_sent: 10,
            sent_at: 1_000_000_000,
            answers: 3,
        }),
    };
    let mut expected = vec![0x4e, 0x42, 2, 1, 1, 2, 3, 4];
    expected.extend([0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    expected.extend([0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 5, 7, 0, 0, 0, 0, 0, 0, 3, 0xe8]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0]);
    expected.extend([0, 0, 0, 0, 0, 0, 0, 3]);
    expected.extend([0xa3, 0xd0, 0xb5, 0xeb, 0xcc, 0x59, 0x4e, 0xa5]);
    expected.extend([0x4c, 0x1f, 0x8a, 0x99, 0xd3, 0x76, 0x4f, 0x1e]);
    assert_eq!(message.seal(&authenticator()), expected);
}

#[test]
fn names_every_kind_of_defect() {
    let open = |bytes: &[u8]| Message::open(&authenticator(), bytes).unwrap_err();
    let message = Message {
        bundle: 7,
        incarnation: 1,
        peer: 0,
        sequence: 1,
        body: Body::Ack(Ack { digest: 1, received_at: 2, bytes_received: 3, packets_received: 4 }),
    };
    let good = message.seal(&authenticator());
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(open(&with(0, 0)), Rejection::Foreign(0x0042));
    assert_eq!(open(&with(2, 1)), Rejection::UnknownVersion(1));
    assert_eq!(open(&with(3, 4)), Rejection::UnknownType(4));
    assert_eq!(open(&with(15, 0)), Rejection::BadValue { field: "incarnation", at: 8, value: 0 });
    assert_eq!(
        open(&with(31, 0)),
        Rejection::BadValue { field: "sequence number", at: 24, value: 0 }
    );
    // A heartbeat has a period where an ACK has a digest.
    let mut heartbeat = with(3, 1);
    heartbeat[32] = MAX_PERIOD_LOG2 + 1;
    assert_eq!(open(&heartbeat), Rejection::BadValue { field: "period", at: 32, value: 17 });
    assert_eq!(open(&good[..33]), Rejection::Truncated { field: "digest", at: 32 });
    assert_eq!(open(&good[..64]), Rejection::Truncated { field: "tag", at: 64 });
    assert_eq!(open(&[&good[..], &[0; 3]].concat()), Rejection::TrailingBytes(3));
    let stranger = Authenticator::new(&Key::from_secret("battery staple"));
    assert_eq!(Message::open(&stranger, &good), Err(Rejection::BadTag));
}

#[test]
fn reads_bundle_of_control_messages_only() {
    assert_eq!(bundle_of(&[0x4e, 0x42, 2, 3, 0, 0, 1, 2, 9]), Some(258));
    assert_eq!(bundle_of(&[0x4e, 0x42, 2, 3, 0, 0, 1]), None);
    assert_eq!(bundle_of(&[0x4e, 0x42, 2, ENCAPSULATED, 0, 0, 1, 2]), None);
    assert_eq!(bundle_of(&[0x4e, 0x42, 1, 3, 0, 0, 1, 2]), None);
    assert_eq!(bundle_of(&[0x4e, 0x43, 2, 3, 0, 0, 1, 2]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn opens_sealed_messages(message in any_message()) {
        let bytes = message.seal(&authenticator());
        prop_assert!(bytes.len() <= MAX_LEN);
        prop_assert_eq!(bundle_of(&bytes), Some(message.bundle));
        prop_assert_eq!(Message::open(&authenticator(), &bytes), Ok(message));
    }

    #[test]
    fn rejects_every_truncated_message(message in any_message()) {
        let bytes = message.seal(&authenticator());
        for length in 0..bytes.len() {
            let refused = Message::open(&authenticator(), &bytes[..length]).unwrap_err();
            prop_assert!(
                matches!(refused, Rejection::Truncated { at, .. } if at <= length),
                "{}: {}", length, refused,
            );
        }
    }

    #[test]
    fn rejects_every_flipped_bit(message in any_message()) {
        let good = message.seal(&authenticator());
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Message::open(&authenticator(), &bytes).is_err(), "bit {}", bit);
        }
    }

    #[test]
    fn rejects_arbitrary_bytes(bytes: Vec<u8>) {
        prop_assert!(Message::open(&authenticator(), &bytes).is_err());
        let _ = bundle_of(&bytes);
    }
}
