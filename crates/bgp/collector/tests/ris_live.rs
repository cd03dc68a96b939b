//! The feed as read by bgpkit-parser, compared with its result for the same archive records.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::Read;
use std::path::Path;

use bgp::mrt::Body;
use bgpkit_parser::{BgpElem, Elementor, parse_ris_live_message};
use collector::text::bgpdump::records;
use collector::text::ris_live::{Encoder, Notice};
use collector::{Event, MirrorId, Peering, PeeringId, Sender};

/// Fields of a route that both contain. The feed omits local preference, atomic aggregate
/// and large communities.
fn shown(element: &BgpElem) -> String {
    let communities = element.communities.iter().flatten().map(ToString::to_string);
    let mut communities: Vec<String> =
        communities.filter(|text| text.matches(':').count() < 2).collect();
    communities.sort();
    format!(
        "{:?} {} {} {} hop {:?} path {:?} {:?} med {:?} aggregator {:?} {:?} {communities:?}",
        element.elem_type,
        element.peer_ip,
        element.peer_asn,
        element.prefix.prefix,
        element.next_hop,
        element.as_path.as_ref().map(ToString::to_string).filter(|path| !path.is_empty()),
        element.origin,
        element.med.unwrap_or(0),
        element.aggr_asn,
        element.aggr_ip,
    )
}

fn compare(bytes: &[u8]) -> usize {
    let mut encoder = Encoder::new("rrc99.example");
    let mut elements = 0;
    for record in records(bytes) {
        let Ok(Body::Message(message)) = record.parse() else { continue };
        let Some(whole) = message.message() else { continue };
        let negotiated = message.form.negotiated();
        let peering = Peering {
            peer_as: message.session.peer_as,
            local_as: message.session.local_as,
            from_peer: negotiated,
            from_local: negotiated,
            certain: true,
            ..Peering::new(PeeringId(0), MirrorId(0), message.session.peer, message.session.local)
        };
        let event = Event::Message { time: record.time, from: Sender::Peer, message: whole };
        let Some(notice) = Notice::new(&peering, &event) else { continue };
        let (mut text, mut raw) = (Vec::new(), Vec::new());
        encoder.encode(&notice, &mut text, &mut raw);
        let theirs =
            bgpkit_parser::parser::mrt::mrt_record::parse_mrt_record(&mut { record.bytes });
        let Ok(theirs) = theirs.map_err(|error| eprintln!("{error}")) else { continue };
        let mut theirs: Vec<_> =
            Elementor::new().record_to_elems(theirs).iter().map(shown).collect();
        for text in [text, raw] {
            let text = String::from_utf8(text).unwrap();
            let ours = parse_ris_live_message(&text).expect(&text);
            let mut ours: Vec<_> = ours.iter().map(shown).collect();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{text}");
            elements += ours.len();
        }
    }
    elements
}

#[test]
fn matches_archive() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp");
    let mut elements = 0;
    for name in
        ["mrt/ris.rrc06.updates.1427846400.gz", "mrt/ris_rrc15_2010.02_updates.20100227.1610.gz"]
    {
        let mut bytes = Vec::new();
        let file = fs::File::open(data.join(name)).unwrap();
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        elements += compare(&bytes);
    }
    elements +=
        compare(&fs::read(data.join("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap());
    assert!(elements > 20_000, "{elements}");
}
