use std::path::{Path, PathBuf};

use bgp::mrt::{RibEntry, write};
use bgp::update::Update;

use super::*;

#[derive(Default)]
struct Log {
    messages: Vec<(PeeringId, Sender, Negotiated, Vec<u8>)>,
    states: Vec<(PeeringId, State, State)>,
    gaps: Vec<Gap>,
}

impl Sink for Log {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        match event {
            Event::Message { from, message, .. } => {
                let reading = match from {
                    Sender::Peer => peering.from_peer,
                    Sender::Local => peering.from_local,
                };
                self.messages.push((peering.id, *from, reading, message.bytes().to_vec()));
            }
            Event::State { old, new, .. } => self.states.push((peering.id, *old, *new)),
            Event::Gap(gap) => self.gaps.push(*gap),
            Event::Reading(_) => {}
        }
    }
}

fn sample(name: &str) -> Vec<u8> {
    let data: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp");
    std::fs::read(data.join(name)).unwrap()
}

fn read(bytes: &[u8]) -> (Input, Log) {
    let (mut input, mut log) = (Input::new(MirrorId(3), PeeringId(10)), Log::default());
    assert_eq!(input.read(bytes, true, &mut log), (bytes.len(), 0));
    (input, log)
}

#[test]
fn assigns_sessions_to_peerings() {
    let bytes = sample("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt");
    assert!(is_archive(&bytes));
    let (input, log) = read(&bytes);
    let counts = input.counts();
    assert_eq!((counts.records, counts.undecodable, counts.damaged), (128, 0, 0));
    assert_eq!((counts.messages, counts.states + counts.unattributed), (116, 12));
    assert_eq!(input.peerings().len(), 3, "{:#?}", input.peerings());
    for (number, peering) in input.peerings().iter().enumerate() {
        assert_eq!((peering.id, peering.mirror), (PeeringId(10 + number as u32), MirrorId(3)));
        assert!(peering.certain && peering.peer_id != 0);
        // One has a number of four octets, written as AS_TRANS in its first records.
        assert_ne!(peering.peer_as, Asn::TRANS);
    }
    assert!(input.peerings().iter().any(|peering| peering.peer_as.0 > 0xffff));
    let with_paths = log.messages.iter().filter(|message| !message.2.add_path.is_empty());
    assert_eq!(with_paths.count(), 64);
    assert!(
        log.states
            .iter()
            .any(|(_, old, new)| (*old, *new) == (State::OpenConfirm, State::Established))
    );
}

#[test]
fn emits_same_events_for_any_chunks() {
    let bytes = sample("mrt/small/quagga_bgp");
    let (whole, expected) = read(&bytes);
    let (mut input, mut log) = (Input::new(MirrorId(3), PeeringId(10)), Log::default());
    let (mut from, mut to) = (0, 0);
    loop {
        let (used, need) = input.read(&bytes[from..to], to == bytes.len(), &mut log);
        from += used;
        if need == 0 {
            break;
        }
        to = (to + 100).min(bytes.len());
    }
    assert_eq!(input.counts(), whole.counts());
    assert_eq!(log.messages, expected.messages);
    assert_eq!(log.states, expected.states);
}

#[test]
fn matches_peers_of_table_and_updates() {
    let (input, log) = read(&sample("mrt/small/openbgpd_rib_table-v2"));
    let counts = input.counts();
    assert_eq!((counts.undecodable, counts.unattributed), (0, 0));
    assert_eq!(counts.routes as usize, log.messages.len());
    assert!(log.messages.len() >= 30, "{}", log.messages.len());
    for (_, from, reading, bytes) in &log.messages {
        let update = Update::parse(Message::split(bytes).unwrap().body()).unwrap();
        assert!(*from == Sender::Peer && reading.four_octet_as);
        assert!(update.attributes().all(|attribute| attribute.is_ok()));
    }
    let mut updates = Vec::new();
    let peer = input.peerings()[0];
    let local = "192.0.2.9".parse().unwrap();
    let session = Session::new(peer.peer_as, Asn(7), peer.peer, local);
    let form = Form { four_octet_as: true, ..Form::default() };
    let keepalive = [&MARKER[..], &[0, 19, 4]].concat();
    write::message(&mut updates, Time::ZERO, kind::BGP4MP, &session, form, &keepalive);
    let mut input = input;
    input.read(&updates, true, &mut Log::default());
    assert_eq!(input.peerings()[0].local, local);
    assert_eq!(input.peerings().last().unwrap().id.0 as usize, 9 + input.peerings().len());
}

#[test]
fn keeps_path_identifiers_of_tables() {
    let (input, log) = read(&sample("mrt/small/bird-mrtdump_rib"));
    // The router's own routes have no next hop.
    assert_eq!((input.counts().undecodable, log.messages.len()), (6, 12));
    let with = log.messages.iter().filter(|message| {
        let update = Update::parse(Message::split(&message.3).unwrap().body()).unwrap();
        let reading = message.2;
        let mut prefixes = update.announced(&reading);
        prefixes.next().unwrap().unwrap().path_id.is_some()
    });
    assert!(with.count() >= 12);
}

#[test]
fn reads_old_files() {
    let (input, log) = read(&sample("mrt/small/openbgpd_rib_table"));
    assert_eq!((input.counts().routes, input.counts().undecodable), (31, 0));
    assert_eq!(log.messages.len(), 31);
    let (input, _) = read(&sample("mrt/small/openbgpd_rib_table-mp"));
    assert_eq!((input.counts().routes, input.counts().undecodable), (31, 0));
    let (peer, local) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let (peer_as, local_as) = (Asn(1), Asn(2));
    let mut bytes = Vec::new();
    let body = &[][..];
    let message = Old::Message { subtype: 7, peer_as, peer, local_as, local, body };
    write::old(&mut bytes, Time::ZERO, &message);
    write::old(&mut bytes, Time::ZERO, &Old::StateChange { peer_as, peer, old: 6, new: 1 });
    let (input, log) = read(&bytes);
    assert_eq!(log.messages[0].3.len(), HEADER);
    assert_eq!(log.states, [(PeeringId(10), State::Established, State::Idle)]);
    assert_eq!(input.peerings()[0].session, 1);
}

#[test]
fn counts_unreadable_records() {
    let mut bytes = Vec::new();
    let (peer, local) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let session = Session::new(Asn(1), Asn(2), peer, local);
    write::message(&mut bytes, Time::ZERO, kind::BGP4MP, &session, Form::default(), &[1, 2, 3]);
    let nowhere = Session::new(Asn(9), Asn(2), "0.0.0.0".parse().unwrap(), local);
    let change = StateChange { session: nowhere, four_octet_as: true, old: 6, new: 1 };
    write::state_change(&mut bytes, Time::ZERO, kind::BGP4MP, &change);
    // The same without an address, but with an AS that only one peer has.
    let change = StateChange { session: Session { peer_as: Asn(1), ..nowhere }, ..change };
    write::state_change(&mut bytes, Time::ZERO, kind::BGP4MP, &change);
    let mut rib =
        write::Rib::open(&mut bytes, Time::ZERO, 0, Family::IPV4_UNICAST, false, &[8, 10]);
    let entry = RibEntry { peer: 4, originated: 0, path_id: None, attributes: &[] };
    rib.entry(&mut bytes, &entry).unwrap();
    rib.close(&mut bytes);
    let (input, log) = read(&bytes);
    let counts = input.counts();
    assert_eq!((counts.undecodable, counts.unattributed, counts.states), (1, 2, 1));
    assert_eq!((log.gaps[0].cause, log.gaps[0].skipped), (GapCause::Undecodable, 3));
    assert_eq!(log.states.len(), 1);
}

#[test]
fn limits_search_among_peerings_with_equal_address() {
    let mut input = Input::new(MirrorId::NONE, PeeringId(0));
    let [peer, local] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
    let of = |asn| Session::new(Asn(asn), Asn(65_000), peer, local);
    let max = MAX_PEERINGS_OF_ADDRESS as u32;
    let first = 100_000;
    for asn in first..first + max {
        assert_eq!(input.at(&of(asn), true), Some((asn - first) as usize));
    }
    let searched = input.searched.get();
    assert_eq!(searched, u64::from(max) * u64::from(max - 1) / 2);
    // Known sessions require no search.
    for asn in (first..first + max).rev() {
        assert_eq!(input.at(&of(asn), true), Some((asn - first) as usize));
    }
    assert_eq!(input.searched.get(), searched);
    // The cost of further ones does not grow.
    for asn in first + max..first + 2 * max {
        assert_eq!(input.at(&of(asn), true), None);
    }
    assert_eq!(input.searched.get(), searched + u64::from(max) * u64::from(max));
    assert_eq!((input.peerings().len(), input.counts().unattributed), (4_096, 4_096));
}
