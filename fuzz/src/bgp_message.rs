//! Messages of any type are parsed and decoded, and UPDATEs walked and judged, without a panic; an
//! UPDATE is accepted if it has no problem, and both decoders of prefixes agree.

use bgp::attribute::{Attribute, LogicalPath};
use bgp::negotiated::Families;
use bgp::notification::Notification;
use bgp::open::Open;
use bgp::route_refresh::RouteRefresh;
use bgp::update::{Update, Visitor, walk};
use bgp::verdict::{Action, judge};
use bgp::{Family, Message, MessageType, Negotiated};

#[derive(Default)]
struct Count(usize);

impl Visitor for Count {
    fn announced(&mut self, family: Family, _: bgp::nlri::Nlri) {
        self.0 += usize::from(family == Family::IPV4_UNICAST);
    }
}

fn update(body: &[u8], negotiated: Negotiated) {
    let mut count = Count::default();
    let action = walk(body, &negotiated, &mut count);
    let verdict = judge(body, &negotiated);
    assert_eq!(action, verdict.action);
    assert_eq!(action == Action::Accept, verdict.problems.is_empty());
    let Ok(update) = Update::parse(body) else { return };
    let _ = update.end_of_rib();
    let plain = update.announced(&negotiated).flatten().count();
    assert!(plain <= count.0);
    let mut path = None;
    for raw in update.attributes().filter_map(Result::ok) {
        let Ok(attribute) = Attribute::decode(raw, &negotiated) else { continue };
        match (&attribute, path) {
            (Attribute::AsPath(found), _) => path = Some(*found),
            (Attribute::As4Path(found), Some(path)) => {
                let logical = LogicalPath::new(path, Some(*found));
                let hops: usize = logical.segments().map(|segment| segment.hops()).sum();
                assert_eq!(hops, path.hops());
            }
            _ => {}
        }
        let mut bytes = Vec::new();
        let _ = attribute.encode(&negotiated, &mut bytes);
    }
}

pub(crate) fn target(bytes: &[u8]) {
    let Some((&[way, kind], body)) = bytes.split_first_chunk() else { return };
    let negotiated = Negotiated {
        four_octet_as: way & 1 != 0,
        extended_message: way & 2 != 0,
        add_path: if way & 4 != 0 { Families::ALL } else { Families::NONE },
    };
    let kind = MessageType(kind);
    let Ok(message) = bgp::message::encode(kind, body, bgp::message::MAX_EXTENDED) else { return };
    assert_eq!(Message::split(&message).map(Message::bytes), Some(&message[..]));
    match kind {
        MessageType::OPEN => {
            if let Ok(open) = Open::parse(body) {
                let _ = (open.capabilities().count(), Negotiated::between(&open, &open));
            }
        }
        MessageType::UPDATE => update(body, negotiated),
        MessageType::NOTIFICATION => {
            if let Ok(notification) = Notification::parse(body) {
                let _ = notification.communication();
            }
        }
        MessageType::ROUTE_REFRESH => {
            let _ = RouteRefresh::parse(body);
        }
        _ => {}
    }
}
