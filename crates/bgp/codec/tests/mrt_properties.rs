//! Archive records of arbitrary content round-trip, and all bytes are accounted for.

use std::net::IpAddr;

use base::Time;
use bgp::mrt::{
    Body, Form, Peer, Reader, Records, RibEntry, Session, StateChange, Step, kind, write,
};
use bgp::{Afi, Asn, Family, Safi};
use proptest::prelude::*;

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from),]
}

/// Both ends of one family, and AS numbers that fit the encoding.
fn session(four_octet_as: bool) -> impl Strategy<Value = Session> {
    let most = if four_octet_as { u32::MAX } else { 0xffff };
    let ends = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    (0..=most, 0..=most, any::<u16>(), ends).prop_map(|(peer_as, local_as, interface, ends)| {
        let session = Session::new(Asn(peer_as), Asn(local_as), ends.0, ends.1);
        Session { interface, ..session }
    })
}

fn form() -> impl Strategy<Value = Form> {
    any::<[bool; 3]>().prop_map(|[four_octet_as, local, add_path]| Form {
        four_octet_as,
        local,
        add_path,
    })
}

/// Times in microseconds, up to 32 bits of seconds.
fn time() -> impl Strategy<Value = Time> {
    (0..u64::from(u32::MAX), 0..1_000_000_u64)
        .prop_map(|(seconds, micros)| Time::from_nanos((seconds * 1_000_000 + micros) * 1000))
}

proptest! {
    #[test]
    fn round_trips_messages(
        (form, session) in form().prop_flat_map(|form| (Just(form), session(form.four_octet_as))),
        time in time(),
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = Vec::new();
        write::message(&mut bytes, time, kind::BGP4MP_ET, &session, form, &body);
        let record = Records::new(&bytes).next().unwrap().unwrap();
        prop_assert_eq!(record.time, time);
        let Ok(Body::Message(read)) = record.parse() else { panic!("{record:?}") };
        prop_assert_eq!((read.session, read.form, read.bytes), (session, form, &body[..]));
    }

    #[test]
    fn round_trips_states(
        (four_octet_as, session) in
            any::<bool>().prop_flat_map(|wide| (Just(wide), session(wide))),
        time in time(),
        (old, new) in any::<(u16, u16)>(),
    ) {
        let change = StateChange { session, four_octet_as, old, new };
        let mut bytes = Vec::new();
        write::state_change(&mut bytes, time, kind::BGP4MP_ET, &change);
        let record = Records::new(&bytes).next().unwrap().unwrap();
        prop_assert_eq!(record.parse().unwrap(), Body::StateChange(change));
    }

    #[test]
    fn round_trips_peers(
        peers in prop::collection::vec((address(), any::<(u32, u32, bool)>()), 0..20),
        view in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let peers: Vec<Peer> = peers
            .into_iter()
            .map(|(address, (asn, id, four_octet_as))| {
                let asn = Asn(if four_octet_as { asn } else { asn & 0xffff });
                Peer { address, asn, id, four_octet_as }
            })
            .collect();
        let mut bytes = Vec::new();
        write::peer_index_table(&mut bytes, Time::ZERO, 5, &view, &peers).unwrap();
        let record = Records::new(&bytes).next().unwrap().unwrap();
        let Ok(Body::PeerIndexTable(table)) = record.parse() else { panic!("{record:?}") };
        prop_assert_eq!((table.collector, table.view), (5, &view[..]));
        prop_assert_eq!(table.peers().map(Result::unwrap).collect::<Vec<_>>(), peers);
    }

    #[test]
    fn round_trips_routes(
        (afi, safi) in prop_oneof![Just((1, 1)), Just((2, 2)), Just((1, 128)), Just((25, 65))],
        add_path in any::<bool>(),
        entries in prop::collection::vec(
            (any::<(u16, u32, u32)>(), prop::collection::vec(any::<u8>(), 0..30)),
            1..9,
        ),
    ) {
        let family = Family { afi: Afi(afi), safi: Safi(safi) };
        let nlri: &[u8] = if safi == 65 { &[0, 3, 1, 2, 3] } else { &[24, 1, 2, 3] };
        let entries: Vec<RibEntry<'_>> = entries
            .iter()
            .map(|((peer, originated, id), attributes)| {
                let path_id = add_path.then_some(*id);
                RibEntry { peer: *peer, originated: *originated, path_id, attributes }
            })
            .collect();
        let mut bytes = Vec::new();
        let mut rib = write::Rib::open(&mut bytes, Time::ZERO, 7, family, add_path, nlri);
        for entry in &entries {
            rib.entry(&mut bytes, entry).unwrap();
        }
        rib.close(&mut bytes);
        let record = Records::new(&bytes).next().unwrap().unwrap();
        let Ok(Body::Rib(rib)) = record.parse() else { panic!("{record:?}") };
        prop_assert_eq!((rib.sequence, rib.family, rib.nlri), (7, family, nlri));
        prop_assert_eq!(rib.entries().map(Result::unwrap).collect::<Vec<_>>(), entries);
    }

    #[test]
    fn accounts_for_arbitrary_bytes(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        headers in prop::collection::vec((0usize..400, 12_u8..18, 0_u8..12, any::<u8>()), 0..9),
        size in 1usize..50,
    ) {
        // Some of them look like headers.
        for (at, kind, subtype, length) in headers {
            if let Some(header) = bytes.get_mut(at..at + 12) {
                header.copy_from_slice(&[1, 2, 3, 4, 0, kind, 0, subtype, 0, 0, 0, length]);
            }
        }
        let (mut reader, mut from, mut to) = (Reader::new(), 0, 0);
        loop {
            match reader.next(&bytes[from..to], to == bytes.len()) {
                Step::Record(record) => {
                    let _ = record.parse();
                    from += record.bytes.len();
                }
                Step::Need(need) => {
                    prop_assert!(need > to - from && to < bytes.len());
                    to = bytes.len().min(to + size);
                }
                Step::Damaged(damage) => {
                    prop_assert_eq!(damage.offset, from as u64);
                    prop_assert!(damage.skipped > 0);
                    from += damage.skipped;
                }
                Step::End => break,
            }
        }
        prop_assert_eq!(from, bytes.len());
    }
}
