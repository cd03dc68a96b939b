use bgp::bmp::{Tlv, Tlvs, peer_flags, write};
use bgp::capability::Capability;
use bgp::open::OpenBuilder;
use bgp::{Asn, Family};

use super::*;

#[derive(Default)]
struct Log(Vec<(Peering, String)>);

impl Sink for Log {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let what = match event {
            Event::Message { from, message, .. } => {
                format!("{from:?} {}", message.kind().name().unwrap_or("?"))
            }
            Event::State { new, reason, .. } => format!("{new:?} {reason:?}"),
            Event::Gap(gap) => format!("{:?}", gap.cause),
            Event::Reading(_) => "reading".to_owned(),
        };
        self.0.push((*peering, what));
    }
}

impl Log {
    fn events(&self) -> Vec<&str> {
        self.0.iter().map(|(_, what)| what.as_str()).collect()
    }
}

fn header(flags: u8) -> PeerHeader {
    let address = "192.0.2.1".parse().unwrap();
    let header = PeerHeader::global(Time::from_nanos(5_000_000_000), address, Asn(65_001), 9);
    PeerHeader { flags, ..header }
}

fn open(asn: u32, add_path: u8) -> Vec<u8> {
    let mut open = OpenBuilder::new(Asn(asn), 90, 9);
    open.capability(&Capability::FourOctetAs(Asn(asn))).unwrap();
    open.capability(&Capability::AddPath(&[[0, 1, 1, add_path]])).unwrap();
    open.build().unwrap()
}

fn up(out: &mut Vec<u8>, header: &PeerHeader) {
    let up = PeerUp {
        local: "192.0.2.2".parse().unwrap(),
        local_port: 179,
        remote_port: 5000,
        sent: &open(65_002, 1),
        received: &open(65_001, 3),
        information: Tlvs::new(&[]),
    };
    write::peer_up(out, header, &up);
}

fn update() -> Vec<u8> {
    let mut bytes = bgp::MARKER.to_vec();
    bytes.extend([0, 23, 2, 0, 0, 0, 0]);
    bytes
}

fn read(input: &mut Input, bytes: &[u8], end: bool) -> Log {
    let mut log = Log::default();
    assert_eq!(input.read(bytes, end, &mut log).0, bytes.len());
    log
}

fn input() -> Input {
    Input::new(MirrorId(4), PeeringId(20))
}

#[test]
fn learns_parameters_from_opens() {
    let mut bytes = Vec::new();
    let name = Tlv { kind: information::SYS_NAME, value: b"edge-1" };
    write::initiation(&mut bytes, &[name]).unwrap();
    up(&mut bytes, &header(0));
    write::route_monitoring(&mut bytes, &header(peer_flags::TWO_OCTET_AS), &update());
    write::route_monitoring(&mut bytes, &header(0), &update());
    let mut input = input();
    let log = read(&mut input, &bytes, false);
    let expected = ["Local OPEN", "Peer OPEN", "Established Seen", "Peer UPDATE", "Peer UPDATE"];
    assert_eq!(log.events(), expected);
    let readings: Vec<_> = log.0.iter().map(|(peering, _)| peering.from_peer).collect();
    assert!(!readings[3].four_octet_as && readings[4].four_octet_as);
    assert!(readings[4].add_path.contains(Family::IPV4_UNICAST));
    let peering = log.0[4].0;
    assert!(peering.certain && peering.from_local.add_path.is_empty());
    assert_eq!((peering.id, peering.local_as), (PeeringId(20), Asn(65_002)));
    assert_eq!(input.name(), "edge-1");
}

#[test]
fn counts_tables_other_than_those_on_wire() {
    let flags = [
        0,
        peer_flags::POST_POLICY,
        peer_flags::ADJ_RIB_OUT,
        peer_flags::ADJ_RIB_OUT | peer_flags::POST_POLICY,
    ];
    let mut bytes = Vec::new();
    for flags in flags {
        write::route_monitoring(&mut bytes, &header(flags), &update());
    }
    let mut input = input();
    assert_eq!(read(&mut input, &bytes, false).events(), ["Peer UPDATE", "Local UPDATE"]);
    assert_eq!((input.peerings().len(), input.counts().other), (1, 2));
}

#[test]
fn reports_reason_of_peer_down() {
    let cease = [&bgp::MARKER[..], &[0, 21, 3, 6, 4]].concat();
    let downs = [
        (Down::LocalNotification(&cease), "Idle Notification(Local, 6, 4)"),
        (Down::RemoteNotification(&cease), "Idle Notification(Peer, 6, 4)"),
        (Down::LocalEvent(10), "Idle HoldTimeExpired"),
        (Down::RemoteClosed, "Idle Finished"),
        (Down::Deconfigured, "Idle Forgotten"),
    ];
    let mut input = input();
    for (session, (down, expected)) in downs.iter().enumerate() {
        let mut bytes = Vec::new();
        up(&mut bytes, &header(0));
        write::peer_down(&mut bytes, &header(0), down);
        let log = read(&mut input, &bytes, false);
        assert_eq!(log.events().last(), Some(expected));
        assert_eq!(log.0[0].0.session as usize, session);
    }
}

#[test]
fn keeps_peerings_across_connections() {
    let mut bytes = Vec::new();
    up(&mut bytes, &header(0));
    let mut input = input();
    let log = read(&mut input, &bytes, true);
    assert_eq!(log.events().last(), Some(&"Capture"));
    // The next connection reports the session again, and the one after that ends without
    // a Peer Down.
    bytes.extend_from_within(..);
    let log = read(&mut input, &bytes, false);
    assert_eq!(log.events()[3], "Idle Replaced");
    assert_eq!(input.peerings().len(), 1);
}

#[test]
fn reports_truncated_updates_as_undecodable() {
    let mut bytes = Vec::new();
    // Route Mirroring produces no events.
    bytes.extend([3, 0, 0, 0, 48, 6]);
    bytes.extend([0; 42]);
    write::route_monitoring(&mut bytes, &header(0), &update()[..22]);
    let mut input = input();
    assert_eq!(read(&mut input, &bytes, false).events(), ["Undecodable"]);
    assert_eq!((input.counts().undecodable, input.counts().other), (1, 1));
}
