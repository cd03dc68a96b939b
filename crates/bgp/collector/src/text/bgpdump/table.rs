//! Table dumps: a line for each route of a prefix.

use super::attributes::{Attributes, Columns};
use super::fields::{AddressFamily, Octets, head};
use crate::text::digits;

/// The table that routes of `TABLE_DUMP_V2` refer to.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers {
    count: usize,
    list: Vec<Peer>,
    /// Start of all lines of a record, and its prefix.
    head: Vec<u8>,
    prefix: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    address: [u8; 16],
    is_v6: bool,
    asn: u32,
}

impl Peers {
    pub(super) fn read(mut body: Octets<'_>) -> Self {
        body.u32();
        let length = usize::from(body.u16());
        // bgpdump does not skip a longer name.
        if length < 255 {
            body.take(length);
        }
        let count = usize::from(body.u16());
        let mut list = Vec::new();
        while list.len() < count && !body.is_empty() {
            let kind = body.u8();
            body.u32();
            let is_v6 = kind & 1 != 0;
            let mut address = [0; 16];
            if is_v6 {
                address = body.array();
            } else {
                address[..4].copy_from_slice(&body.array::<4>());
            }
            let asn = body.asn(if kind & 2 == 0 { 2 } else { 4 });
            list.push(Peer { address, is_v6, asn });
        }
        Self { count, list, ..Self::default() }
    }

    /// Unicast routes of `TABLE_DUMP_V2`.
    pub(super) fn table_dump_v2(
        &mut self,
        seconds: u32,
        subtype: u16,
        mut body: Octets<'_>,
        out: &mut Vec<u8>,
    ) {
        let (family, add_path) = match subtype {
            2 => (AddressFamily::V4, false),
            4 => (AddressFamily::V6, false),
            8 => (AddressFamily::V4, true),
            10 => (AddressFamily::V6, true),
            _ => return,
        };
        body.u32();
        let length = body.u8();
        let mut prefix = [0; 16];
        let octets = body.take(usize::from(length).div_ceil(8)).0;
        let known = octets.len().min(16);
        prefix[..known].copy_from_slice(&octets[..known]);
        self.prefix.clear();
        family.write(prefix, &mut self.prefix);
        self.prefix.push(b'/');
        digits::decimal(u64::from(length), &mut self.prefix);
        let format = if add_path { "TABLE_DUMP2_AP" } else { "TABLE_DUMP2" };
        self.head.clear();
        head(format, (seconds, None), "B", &mut self.head);
        // Either all lines of a record are written, or none.
        let start = out.len();
        for _ in 0..body.u16() {
            let Some(peer) = self.get(body.u16()) else {
                out.truncate(start);
                return;
            };
            // A record that ends early has no more routes, whatever its count is.
            if body.is_empty() {
                break;
            }
            body.u32();
            let path_id = add_path.then(|| body.u32());
            let attributes = Attributes::read(&mut body, 4);
            out.extend_from_slice(&self.head);
            let peer_family = if peer.is_v6 { AddressFamily::V6 } else { AddressFamily::V4 };
            peer_family.write(peer.address, out);
            out.push(b'|');
            digits::decimal(u64::from(peer.asn), out);
            out.push(b'|');
            out.extend_from_slice(&self.prefix);
            out.push(b'|');
            if let Some(path_id) = path_id {
                digits::decimal(u64::from(path_id), out);
                out.push(b'|');
            }
            let reach = attributes.announced[1][0].or(attributes.announced[0][0]);
            let columns = match reach {
                Some(reach) if reach.next_hop_length == 4 => {
                    let [a, b, c, d, ..] = reach.next_hop;
                    Columns::All([a, b, c, d])
                }
                Some(reach) => Columns::AllV6(reach.next_hop),
                None => attributes.plain(),
            };
            attributes.columns(columns, out);
        }
    }

    fn get(&self, index: u16) -> Option<Peer> {
        let index = usize::from(index);
        (index < self.count).then(|| self.list.get(index).copied().unwrap_or_default())
    }
}

/// `TABLE_DUMP`: one route in a record.
pub(super) fn table_dump(seconds: u32, subtype: u16, mut body: Octets<'_>, out: &mut Vec<u8>) {
    body.u32();
    let mut prefix = [0; 16];
    let mut peer = [0; 16];
    let wide = matches!(subtype, 2 | 4);
    let address = |body: &mut Octets<'_>| {
        let mut address = [0; 16];
        if wide {
            address = body.array();
        } else {
            address[..4].copy_from_slice(&body.array::<4>());
        }
        address
    };
    if !(1..=4).contains(&subtype) {
        return;
    }
    prefix.copy_from_slice(&address(&mut body));
    let length = body.u8();
    body.u8();
    body.u32();
    peer.copy_from_slice(&address(&mut body));
    let width = if subtype > 2 { 4 } else { 2 };
    let asn = body.asn(width);
    let attributes = Attributes::read(&mut body, width);
    // Addresses of subtype 4 are shown as if they were IPv4.
    let family = if subtype == 2 { AddressFamily::V6 } else { AddressFamily::V4 };
    head("TABLE_DUMP", (seconds, None), "B", out);
    family.write(peer, out);
    out.push(b'|');
    digits::decimal(u64::from(asn), out);
    out.push(b'|');
    family.write(prefix, out);
    out.push(b'/');
    digits::decimal(u64::from(length), out);
    out.push(b'|');
    let columns = match attributes.announced[1][0] {
        Some(reach) => Columns::AllV6(reach.next_hop),
        None => attributes.plain(),
    };
    attributes.columns(columns, out);
}
