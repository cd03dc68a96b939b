use std::net::IpAddr;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Error, Result};

const MAX_FRAME: u16 = 4096;

fn limits() -> impl Strategy<Value = Limits> {
    (1u8.., MIN_FRAME_LIMIT.., any::<u16>(), any::<u16>(), any::<bool>()).prop_map(
        |(subflows, frame, idle, resume, proof)| Limits { subflows, frame, idle, resume, proof },
    )
}

fn priority() -> impl Strategy<Value = Priority> {
    (any::<bool>(), 1u8..).prop_map(|(backup, weight)| Priority { backup, weight })
}

fn reason() -> impl Strategy<Value = Reason> {
    (0u32..10).prop_map(Reason::from_number)
}

fn text(max: usize) -> impl Strategy<Value = String> {
    any::<String>().prop_map(move |mut text| {
        while text.len() > max {
            text.pop();
        }
        text
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    (any::<([u8; 32], [u8; 16])>(), any::<u32>(), any::<u64>(), limits(), text(MAX_TARGET_BYTES))
        .prop_map(|((nonce, token), subflow, credit, limits, target)| Hello {
            token: if limits.proof { token } else { [0; 16] },
            nonce,
            subflow: SubflowId(subflow),
            credit,
            limits,
            target,
        })
}

fn join() -> impl Strategy<Value = Join> {
    (any::<(u64, u32, u32)>(), priority(), any::<([u8; 16], [u8; 16])>()).prop_map(
        |((session, index, subflow), priority, (nonce, token))| Join {
            session,
            index,
            subflow: SubflowId(subflow),
            priority,
            nonce,
            token,
        },
    )
}

fn dack() -> impl Strategy<Value = Dack> {
    (0..u64::MAX / 2, any::<(u64, u32, u32)>(), vec((1u64..1 << 40, 1u64..1 << 40), 0..=MAX_RANGES))
        .prop_map(|(next, (credit, path_seq, delay_us), gaps)| {
            let mut at = next;
            let ranges = gaps.into_iter().map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                start..at
            });
            Dack { next, credit, path_seq, delay_us, ranges: ranges.collect() }
        })
}

fn data() -> impl Strategy<Value = Frame<Bytes>> {
    let copy = prop_oneof![Just(Copy::First), Just(Copy::Reinjected), Just(Copy::Redundant)];
    (0..=u64::MAX - u64::from(MAX_FRAME) - 1, 1..=usize::from(MAX_FRAME), any::<u8>(), copy)
        .prop_map(|(dsn, length, fill, copy)| {
            let payload: Vec<u8> = (0..length).map(|at| fill.wrapping_add(at as u8)).collect();
            Frame::Data { dsn, payload: payload.into(), copy }
        })
}

fn frame() -> impl Strategy<Value = Frame<Bytes>> {
    prop_oneof![
        3 => data(),
        1 => hello().prop_map(Frame::Hello),
        1 => (any::<[u8; 32]>(), any::<([u8; 16], u64, u64)>(), limits()).prop_map(|fields| {
            let (nonce, (proof, credit, session), limits) = fields;
            Frame::HelloAck(HelloAck { nonce, credit, limits, session, proof })
        }),
        1 => join().prop_map(Frame::Join),
        1 => any::<([u8; 16], [u8; 16])>()
            .prop_map(|(nonce, proof)| Frame::Challenge(Challenge { nonce, proof })),
        1 => any::<[u8; 32]>().prop_map(Frame::Proof),
        1 => reason().prop_map(Frame::Refuse),
        1 => dack().prop_map(Frame::Dack),
        1 => any::<u64>().prop_map(Frame::Ping),
        1 => any::<u64>().prop_map(Frame::Pong),
        1 => (any::<u8>(), any::<IpAddr>(), 1u16..).prop_map(|(id, ip, port)| {
            Frame::AddAddress { id, address: (ip, port).into() }
        }),
        1 => any::<u8>().prop_map(Frame::RemoveAddress),
        1 => priority().prop_map(Frame::Priority),
        1 => Just(Frame::Close),
        1 => any::<u64>().prop_map(Frame::Wish),
        1 => (0..u64::MAX).prop_map(|length| Frame::Fin { length }),
        1 => (reason(), text(MAX_TEXT_BYTES))
            .prop_map(|(reason, text)| Frame::Reset { reason, text }),
        1 => Just(Frame::Ignored),
    ]
}

fn encoded(path_seq: u32, frame: &Frame<Bytes>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode_header(path_seq, &mut out);
    if let Frame::Data { payload, .. } = frame {
        out.extend_from_slice(payload);
    }
    assert_eq!(out.len(), frame.wire_length());
    out
}

fn stream(frames: &[Frame<Bytes>]) -> Vec<u8> {
    let mut out = PREAMBLE.to_vec();
    (0..).zip(frames).for_each(|(path_seq, frame)| out.extend(encoded(path_seq, frame)));
    out
}

/// Method by which a driver reads.
#[derive(Clone, Copy, Debug)]
enum Reads {
    Vectored,
    Single,
}

fn read(decoder: &mut Decoder, bytes: &mut &[u8], max: usize, reads: Reads) -> usize {
    use std::io::Read as _;

    let mut bytes_now = &bytes[..max.min(bytes.len())];
    let count = match reads {
        Reads::Vectored => bytes_now.read_vectored(&mut decoder.spaces()),
        Reads::Single => bytes_now.read(decoder.space()),
    };
    let count = count.unwrap();
    *bytes = &bytes[count..];
    decoder.advance(count);
    count
}

/// Decodes `bytes` in pieces of the lengths in `pieces`; returns all frames and the result.
fn decoded(
    mut bytes: &[u8],
    pieces: &[usize],
    reads: Reads,
) -> (Vec<(u32, Frame<Bytes>)>, Result<bool>) {
    let (mut decoder, mut frames) = (Decoder::new(MAX_FRAME), Vec::new());
    let mut pieces = pieces.iter().copied().cycle();
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) if bytes.is_empty() => return (frames, Ok(decoder.in_frame())),
            Ok(None) => {
                let max = pieces.next().unwrap_or(usize::MAX);
                assert!(read(&mut decoder, &mut bytes, max, reads) > 0);
            }
            Err(error) => {
                assert_eq!(decoder.next_frame(), Err(error));
                return (frames, Err(error));
            }
        }
    }
}

fn numbered(frames: Vec<Frame<Bytes>>) -> Vec<(u32, Frame<Bytes>)> {
    (0..).zip(frames).collect()
}

/// The error for a frame with these bytes.
fn error(frame: &[u8]) -> Error {
    let mut bytes = PREAMBLE.to_vec();
    bytes.extend(frame);
    let (frames, end) = decoded(&bytes, &[], Reads::Vectored);
    assert_eq!(frames, []);
    end.unwrap_err()
}

fn assert_field(frame: &[u8], field: &'static str) {
    assert_eq!(error(frame), Error::Field { kind: frame[0], field, at: 4 });
}

fn header(kind: u8, flags: u8, length: u16, number: u64) -> Vec<u8> {
    let mut out = vec![kind, flags];
    out.extend(length.to_be_bytes());
    out.extend([0; 4]);
    out.extend(number.to_be_bytes());
    out
}

proptest! {
    #[test]
    fn decodes_encoded_frames_for_any_read_sizes(
        frames in vec(frame(), 0..12),
        pieces in vec(1usize..5000, 1..20),
        single in any::<bool>(),
    ) {
        let reads = if single { Reads::Single } else { Reads::Vectored };
        let bytes = stream(&frames);
        prop_assert_eq!(decoded(&bytes, &pieces, reads), (numbered(frames), Ok(false)));
    }

    #[test]
    fn detects_a_truncated_connection(
        frames in vec(frame(), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = stream(&frames);
        let (last, before) = frames.split_last().unwrap();
        let cut = bytes.len() - last.wire_length() + cut.index(last.wire_length());
        let (found, end) = decoded(&bytes[..cut], &[], Reads::Vectored);
        prop_assert_eq!(found, numbered(before.to_vec()));
        prop_assert_eq!(end, Ok(cut + last.wire_length() > bytes.len()));
    }

    #[test]
    fn damage_has_the_same_result_for_any_read_sizes(
        valid in vec(frame(), 0..3),
        garbage in vec(any::<u8>(), 0..600),
        damage in any::<prop::sample::Index>(),
        pieces in vec(1usize..50, 1..20),
    ) {
        let mut bytes = stream(&valid);
        bytes.extend(garbage);
        let at = damage.index(bytes.len());
        bytes[at] ^= 1 << (at % 8);
        let expected = decoded(&bytes, &[], Reads::Vectored);
        prop_assert_eq!(&expected, &decoded(&bytes, &pieces, Reads::Single));
        prop_assert_eq!(&expected, &decoded(&bytes, &[1], Reads::Vectored));
    }
}

#[test]
fn detects_another_protocol_and_returns_its_first_bytes() {
    let mut decoder = Decoder::new(MAX_FRAME);
    let mut bytes = &b"GET / HTTP/1.1\r\n"[..];
    read(&mut decoder, &mut bytes, 3, Reads::Vectored);
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.in_frame());
    read(&mut decoder, &mut bytes, 100, Reads::Vectored);
    assert_eq!(decoder.next_frame(), Err(Error::Preamble { found: *b"GET " }));
    assert_eq!(decoder.unread(), b"GET / HTTP/1.1\r\n");
}

#[test]
fn reports_another_version() {
    let (_, end) = decoded(&[0xb7, b'M', b'C', 2, 1, 2, 3], &[], Reads::Single);
    assert_eq!(end, Err(Error::Version { version: 2 }));
}

#[test]
fn ignores_unknown_frames_only_with_bit_7() {
    for kind in [0, 0x07, 0x0f, 0x1b, 0x20, 0x7f] {
        assert_eq!(error(&header(kind, 0, 0, 0)), Error::UnknownFrame { kind, at: 4 });
    }
    let mut bytes = PREAMBLE.to_vec();
    bytes.extend(header(0x93, 7, u16::MAX, 1));
    bytes.resize(bytes.len() + 65_535, 0xff);
    bytes.extend(encoded(1, &Frame::Close));
    let (frames, end) = decoded(&bytes, &[], Reads::Vectored);
    assert_eq!((frames, end), (numbered(vec![Frame::Ignored, Frame::Close]), Ok(false)));
}

#[test]
fn rejects_a_length_that_does_not_match_the_type_before_the_body() {
    let fitting: [(u8, &[u16]); 16] = [
        (kind::HELLO, &[45, 46, 316]),
        (kind::HELLO_ACK, &[64]),
        (kind::JOIN, &[42]),
        (kind::CHALLENGE, &[32]),
        (kind::PROOF, &[32]),
        (kind::REFUSE, &[0]),
        (kind::DATA, &[1, 2, MAX_FRAME]),
        (kind::DACK, &[16, 32, 48, 64, 80, 96, 112, 128, 144]),
        (kind::PING, &[0]),
        (kind::PONG, &[0]),
        (kind::ADD_ADDR, &[8, 20]),
        (kind::REMOVE_ADDR, &[0]),
        (kind::PRIO, &[2]),
        (kind::SF_CLOSE, &[0]),
        (kind::FIN, &[0]),
        (kind::RESET, &[0, 1, 128]),
    ];
    for (kind, fitting) in fitting {
        let between = |length| {
            let range = fitting[0]..=*fitting.last().unwrap();
            matches!(kind, kind::HELLO | kind::DATA | kind::RESET) && range.contains(&length)
        };
        for length in 0..=u16::MAX {
            if fitting.contains(&length) || between(length) {
                continue;
            }
            let mut decoder = Decoder::new(MAX_FRAME);
            let mut bytes = PREAMBLE.to_vec();
            bytes.extend(header(kind, 0, length, 0));
            read(&mut decoder, &mut &bytes[..], usize::MAX, Reads::Vectored);
            let error = Error::Length { kind, length: length.into(), at: 4 };
            assert_eq!(decoder.next_frame(), Err(error));
        }
    }
}

#[test]
fn rejects_invalid_fields() {
    let valid = Limits { subflows: 1, frame: MIN_FRAME_LIMIT, idle: 0, resume: 0, proof: false };
    let assert_invalid =
        |frame: Frame<Bytes>, field: &'static str| assert_field(&encoded(0, &frame), field);
    let hello_ack = |limits| {
        Frame::HelloAck(HelloAck { nonce: [0; 32], credit: 0, limits, session: 0, proof: [0; 16] })
    };
    assert_invalid(hello_ack(Limits { subflows: 0, ..valid }), "max subflows");
    assert_invalid(hello_ack(Limits { frame: MIN_FRAME_LIMIT - 1, ..valid }), "max payload");
    assert_invalid(Frame::Priority(Priority { backup: false, weight: 0 }), "weight");
    let address = "192.0.2.1:0".parse().unwrap();
    assert_invalid(Frame::AddAddress { id: 1, address }, "port");
    assert_invalid(Frame::Fin { length: u64::MAX }, "length");
    let payload = Bytes::from_static(b"x");
    assert_invalid(Frame::Data { dsn: u64::MAX - 1, payload, copy: Copy::First }, "dsn");
    let invalid: [&[(u64, u64)]; 5] =
        [&[(5, 6)], &[(7, 7)], &[(8, 7)], &[(7, 9), (8, 10)], &[(0, 1)]];
    for ranges in invalid {
        let ranges = ranges.iter().map(|&(start, end)| start..end).collect();
        let dack = Dack { next: 5, credit: 0, path_seq: 0, delay_us: 0, ranges };
        assert_invalid(Frame::Dack(dack), "ranges");
    }
    assert_field(&header(kind::REMOVE_ADDR, 0, 0, 256), "id");
    assert_field(&header(kind::DATA, 3, 1, 0), "flags");
    let mut family = encoded(0, &Frame::AddAddress { id: 1, address: "[::1]:9".parse().unwrap() });
    family[HEADER + 1] = kind::IPV4;
    assert_field(&family, "family");
    let mut reset = encoded(0, &Frame::Reset { reason: Reason::Aborted, text: "no".into() });
    reset[HEADER] = 0xff;
    assert_field(&reset, "text");
    let nonce = [0; 32];
    let target = "host:80".to_owned();
    let token = [0; 16];
    let hello = Hello { nonce, subflow: SubflowId(0), credit: 0, limits: valid, target, token };
    let mut bytes = encoded(0, &Frame::Hello(hello));
    bytes[HEADER + 44] -= 1;
    assert_eq!(error(&bytes), Error::Length { kind: kind::HELLO, length: 52, at: 4 });
    bytes[HEADER + 44] += 1;
    bytes[HEADER + 45] = 0xc0;
    assert_field(&bytes, "target");
}

#[test]
fn error_offset_counts_all_bytes_of_the_connection() {
    let payload = Bytes::from(vec![7; usize::from(MAX_FRAME)]);
    let frames =
        [Frame::Ping(1), Frame::Data { dsn: 0, payload, copy: Copy::First }, Frame::Ignored];
    let mut bytes = stream(&frames);
    let at = bytes.len() as u64;
    bytes.extend(header(0x0f, 0, 0, 0));
    for pieces in [1, 7, 100, 10_000] {
        let (found, end) = decoded(&bytes, &[pieces], Reads::Vectored);
        assert_eq!(found, numbered(frames.to_vec()));
        assert_eq!(end, Err(Error::UnknownFrame { kind: 0x0f, at }));
    }
}

#[test]
fn truncates_long_texts() {
    let text = "ä".repeat(MAX_TEXT_BYTES);
    let bytes = stream(&[Frame::Reset { reason: Reason::Target, text }]);
    let (frames, _) = decoded(&bytes, &[], Reads::Vectored);
    let text = "ä".repeat(MAX_TEXT_BYTES / 2);
    assert_eq!(frames, numbered(vec![Frame::Reset { reason: Reason::Target, text }]));
}

#[test]
fn rejects_data_above_a_lowered_frame_limit() {
    let payload = Bytes::from_static(&[1; 2000]);
    let data = Frame::Data { dsn: 0, payload, copy: Copy::First };
    let mut decoder = Decoder::new(MAX_FRAME);
    let mut bytes = &stream(&[Frame::Close, data])[..];
    read(&mut decoder, &mut bytes, usize::MAX, Reads::Vectored);
    assert_eq!(decoder.next_frame(), Ok(Some((0, Frame::Close))));
    decoder.set_max_frame(1999);
    let error = Error::Length { kind: kind::DATA, length: 2000, at: 20 };
    assert_eq!(decoder.next_frame(), Err(error));
}
