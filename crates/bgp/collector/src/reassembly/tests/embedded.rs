//! Embedded messages in attributes are never delivered, wherever the capture or a gap begins.

use super::*;

/// An UPDATE with ORIGIN, an unknown optional attribute and NLRI.
fn carrier(value: &[u8], nlri: &[u8]) -> Vec<u8> {
    let mut attributes = vec![0x40, 1, 1, 0, 0xd0, 99];
    attributes.extend((value.len() as u16).to_be_bytes());
    attributes.extend(value);
    let mut body = vec![0, 0];
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend(attributes);
    body.extend(nlri);
    message(2, &body)
}

/// `count` forged UPDATEs.
fn forged(count: usize) -> Vec<u8> {
    (0..count as u8).flat_map(|number| update(&[1; 12], [66, 66, number])).collect()
}

/// Streams with embedded messages: in the middle of an attribute, at the end of one before NLRI, at
/// the end of the last attribute, and overlapping the NLRI up to the end.
fn carriers(count: usize) -> Vec<Vec<u8>> {
    let filler = vec![0x5a; 900];
    let nlri = [24, 10, 1, 1];
    // The NLRI is that of the enclosing message.
    let mut reaching = update(&[1; 12], [10, 1, 1]);
    reaching.truncate(reaching.len() - nlri.len());
    vec![
        carrier(&[&filler[..], &forged(count), &filler[..]].concat(), &nlri),
        carrier(&[&filler[..], &forged(count)].concat(), &nlri),
        carrier(&[&filler[..], &forged(count)].concat(), &[]),
        carrier(&[&filler[..], &forged(count - 1), &reaching].concat(), &nlri),
    ]
}

fn is_forged(bytes: &[u8]) -> bool {
    let path = bytes.ends_with(&[24, 10, 1, 1]) && bytes.len() < 200;
    path || bytes.len() > 3 && bytes[bytes.len() - 3..bytes.len() - 1] == [66, 66]
}

/// The neighbour's real UPDATEs before and after.
fn own(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| update(&[7, 8], [20, (number >> 8) as u8, number as u8])).collect()
}

#[test]
fn rejects_embedded_messages_at_any_start() {
    for count in [1, 3, 12] {
        for (kind, carrier) in carriers(count).into_iter().enumerate() {
            let stream = [carrier.clone(), own(120)].concat();
            // The last start is that of the message after the carrier.
            for start in 1..=carrier.len() {
                let segments: Vec<Segment<'_>> = stream[start..]
                    .chunks(1448)
                    .enumerate()
                    .map(|(number, bytes)| {
                        from_peer(number as u64, 1 + number as u32 * 1448, ACK, bytes)
                    })
                    .collect();
                let (log, _) = run(&segments);
                let received = payloads(&log);
                assert!(!received.iter().any(|m| is_forged(m)), "{count} {kind} {start}");
                let lost = stream.len() - start - received.concat().len();
                assert!((1..=4096 + 64).contains(&lost), "{count} {kind} {start}: {lost}");
            }
        }
    }
}

#[test]
fn rejects_embedded_messages_after_any_gap() {
    for count in [1, 3] {
        for (kind, carrier) in carriers(count).into_iter().enumerate() {
            let stream = [own(2), carrier.clone(), own(220)].concat();
            let begin = own(2).len();
            for end in begin + 1..begin + carrier.len() {
                // The gap includes the carrier's header, or ends within it.
                let from = begin - 10;
                let (log, statistics) = run(&[
                    from_peer(0, 0, SYN, &[]),
                    from_peer(1, 1, ACK, &stream[..from]),
                    from_peer(2, 1 + end as u32, ACK, &stream[end..]),
                ]);
                let received = payloads(&log);
                assert!(!received.iter().any(|m| is_forged(m)), "{count} {kind} {end}");
                assert_eq!(statistics.missing_bytes, (end - from) as u64);
                let all = received.concat().len() as u64 + statistics.skipped_bytes;
                assert_eq!(all, (stream.len() - (end - from)) as u64);
                assert!(received.len() > 50, "{count} {kind} {end}: {}", received.len());
            }
        }
    }
}

/// Two endless chains of headers: a sender that controls all messages can continue a chain from
/// each attribute in the next one. Nothing is delivered until the sender is idle.
#[test]
fn rejects_chain_across_messages() {
    let nlri = [24, 10, 1, 1];
    let mut link = message(2, &[]);
    let one = carrier(&[0; 200], &nlri);
    link[16..18].copy_from_slice(&(one.len() as u16).to_be_bytes());
    let one = carrier(&[&[0; 100][..], &link, &[0; 81]].concat(), &nlri);
    let stream = [own(1), one.repeat(60)].concat();
    let from = own(1).len() + 30;
    let mut segments = vec![from_peer(0, 0, SYN, &[])];
    segments.push(from_peer(1, 1, ACK, &stream[..own(1).len()]));
    segments.push(from_peer(2, 1 + from as u32, ACK, &stream[from..]));
    let end = 1 + stream.len() as u32;
    let alive = keepalive();
    segments.push(from_peer(60_000, end, ACK, &alive));
    let (log, _) = run(&segments);
    assert_eq!(payloads(&log), [own(1), keepalive()]);
}

#[test]
fn delivers_messages_of_short_capture_as_unconfirmed() {
    let stream = own(3);
    let (log, _) = run(&[from_peer(0, 1, ACK, &stream)]);
    assert_eq!(payloads(&log).concat(), stream);
    assert_eq!(log.holes.len(), 1);
    assert_eq!(log.holes[0].1.unconfirmed, stream.len() as u64);
    // An idle sender before or after them is evidence.
    let other = Segment { source: "10.0.0.9:1".parse().unwrap(), ..from_peer(0, 7, ACK, b"x") };
    let (log, _) = run(&[other, from_peer(9_000, 1, ACK, &stream)]);
    assert_eq!(payloads(&log).concat(), stream);
    assert!(log.holes.iter().all(|(_, hole)| hole.unconfirmed == 0));
    let next = 1 + stream.len() as u32;
    let (log, _) =
        run(&[from_peer(0, 1, ACK, &stream), from_peer(30_000, next, ACK, &keepalive())]);
    assert_eq!(payloads(&log), [keepalive()]);
    assert_eq!(log.holes[0].1.skipped, stream.len() as u64);
}

/// If both OPENs offer extended messages, a message may have 65,535 bytes.
#[test]
fn extends_search_for_extended_messages() {
    let open = |extended: bool| {
        let capability: &[u8] = if extended { &[2, 2, 6, 0] } else { &[] };
        let body = [&[4, 0xfd, 0xe8, 0, 180, 10, 0, 0, 1, capability.len() as u8], capability];
        message(1, &body.concat())
    };
    for extended in [false, true] {
        let value = [vec![0; 200], forged(80), vec![0; 200]].concat();
        let stream = [open(extended), carrier(&value, &[24, 10, 1, 1]), own(2_000)].concat();
        let (from, to) = (open(extended).len(), open(extended).len() + 100);
        let router = open(extended);
        let mut answer = from_router(1, 1, 1, ACK);
        answer.payload = &router;
        let mut segments = vec![from_peer(0, 0, SYN, &[]), from_router(0, 0, 1, SYN)];
        segments.push(from_peer(1, 1, ACK, &stream[..from]));
        segments.push(answer);
        segments.extend(
            stream[to..].chunks(1448).enumerate().map(|(number, bytes)| {
                from_peer(2, 1 + to as u32 + number as u32 * 1448, ACK, bytes)
            }),
        );
        let (log, _) = run(&segments);
        let forged = payloads(&log).iter().filter(|message| is_forged(message)).count();
        // Without the offer such a message is invalid; here it shows the length of the search.
        assert_eq!(forged > 0, !extended, "{forged}");
    }
}
