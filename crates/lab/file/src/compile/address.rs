//! Address assignment: a subnet for every layer-2 segment, an address for every interface on it.
//!
//! A segment is a link, or several links joined by switches. Subnets are from 10.0.0.0/8 and
//! `fd6e:6574::/32`, in the order of the links, and avoid fixed ones. Generated session hosts get
//! theirs last, so that their addresses do not change when all other addresses are fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Bytes, IfaceId};

use super::Compiler;
use crate::code::Code;
use crate::plan::Role;
use crate::tree::At;

const POOL_V4: Subnet = Subnet { start: 10 << 120, prefix: 8 };
const POOL_V6: u128 = 0xfd6e_6574 << 96;
/// Minimum MTU of IPv6 (RFC 8200 §5).
const MIN_V6_MTU: Bytes = Bytes::new(1280);

/// IPv4 in the upper 32 bits, so that both families compare in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subnet {
    start: u128,
    prefix: u8,
}

struct Fixed {
    iface: IfaceId,
    address: IpAddr,
    prefix: u8,
    at: At,
}

impl Subnet {
    fn of(address: IpAddr, prefix: u8) -> Self {
        let bits = bits(address);
        Self { start: bits & mask(prefix), prefix }
    }

    fn end(self) -> u128 {
        self.start | !mask(self.prefix)
    }

    fn overlaps(self, other: Self) -> bool {
        self.start <= other.end() && other.start <= self.end()
    }
}

const fn mask(prefix: u8) -> u128 {
    if prefix == 0 { 0 } else { u128::MAX << (128 - prefix as u32) }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn v4(bits: u128) -> Ipv4Addr {
    Ipv4Addr::from_bits((bits >> 96) as u32)
}

impl Compiler<'_> {
    pub(super) fn give_addresses(&mut self) {
        let segments = self.segments();
        let fixed = self.fixed();
        self.addresses_of(&segments, &fixed, true);
        self.addresses_of(&segments, &fixed, false);
    }

    /// Interfaces of hosts and routers by segment, in the order of the links.
    fn segments(&self) -> Vec<Vec<IfaceId>> {
        let mut joined: Vec<usize> = (0..self.plan.links.len()).collect();
        for node in self.plan.nodes.iter().filter(|node| node.kind == Role::Switch) {
            for pair in node.ifaces.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|iface| find(&mut joined, iface.index() / 2));
                // The smaller root represents both, which keeps the order of the links.
                joined[a.max(b)] = a.min(b);
            }
        }
        let mut segments: BTreeMap<usize, Vec<IfaceId>> = BTreeMap::new();
        for (index, iface) in self.plan.ifaces.iter().enumerate() {
            if self.plan.nodes[iface.node.index()].kind != Role::Switch {
                let segment = find(&mut joined, index / 2);
                segments.entry(segment).or_default().push(IfaceId::at(index));
            }
        }
        segments.into_values().collect()
    }

    /// The valid fixed addresses.
    fn fixed(&mut self) -> BTreeMap<IfaceId, Vec<Fixed>> {
        let mut all = BTreeMap::new();
        let mut taken: BTreeMap<IpAddr, At> = BTreeMap::new();
        for (iface, texts) in std::mem::take(&mut self.places.addresses) {
            let mut fixed: Vec<Fixed> = Vec::new();
            for (text, at) in texts {
                let (address, prefix) = match interface_address(text) {
                    Ok(pair) => pair,
                    Err(why) => {
                        self.sink
                            .report(Code::BadAddress, &at, format!("`{text}`: {why}"))
                            .help("such as `\"10.1.2.3/24\"` or `\"fd00::1/64\"`");
                        continue;
                    }
                };
                if let Some(first) = taken.insert(address, at.clone()) {
                    self.sink
                        .report(Code::AddressClash, &at, format!("{address} is given twice"))
                        .also(&first, "the first");
                    continue;
                }
                if fixed.iter().any(|other| other.address.is_ipv4() == address.is_ipv4()) {
                    self.sink
                        .report(Code::BadAddress, &at, "one address of each family is enough")
                        .help("an interface has one IPv4 and one IPv6 address");
                    continue;
                }
                fixed.push(Fixed { iface, address, prefix, at });
            }
            all.insert(iface, fixed);
        }
        all
    }

    fn addresses_of(
        &mut self,
        segments: &[Vec<IfaceId>],
        fixed: &BTreeMap<IfaceId, Vec<Fixed>>,
        is_v4: bool,
    ) {
        let fixed_on = |segment: &[IfaceId]| -> Vec<&Fixed> {
            let all = segment.iter().filter_map(|iface| fixed.get(iface)).flatten();
            all.filter(|fixed| fixed.address.is_ipv4() == is_v4).collect()
        };
        // Fixed subnets first, so that the others avoid them.
        let mut reserved = BTreeMap::new();
        let mut subnets: Vec<Option<Subnet>> = vec![None; segments.len()];
        for (segment, subnet) in segments.iter().zip(&mut subnets) {
            *subnet = self.fixed_subnet(&fixed_on(segment), &mut reserved);
        }
        let mut reserved: Vec<Subnet> = reserved.into_values().map(|(subnet, _)| subnet).collect();
        let mut cursor = POOL_V4.start;
        let brought = segments.partition_point(|segment| {
            self.plan.ifaces[segment[0].index()].link.index() < self.places.drawn_links
        });
        for (index, segment) in segments.iter().enumerate() {
            if index == brought {
                reserved = subnets[..brought].iter().copied().flatten().collect();
                reserved.sort_by_key(|subnet| subnet.start);
                cursor = POOL_V4.start;
            }
            let subnet = match subnets[index] {
                Some(subnet) => Some(subnet),
                None if is_v4 => free_v4(segment.len(), &mut cursor, &reserved),
                None => Some(free_v6(index, &reserved)),
            };
            subnets[index] = subnet;
            if let Some(subnet) = subnet {
                self.fill(segment, subnet, &fixed_on(segment), is_v4);
            } else {
                let link = self.plan.ifaces[segment[0].index()].link;
                let at = self.places.links[link.index()].clone();
                self.sink
                    .report(Code::Limit, &at, "10.0.0.0/8 is used up")
                    .help("fix some addresses elsewhere, or make the lab smaller");
                return;
            }
        }
    }

    /// The subnet of a segment's fixed addresses, if it has any and they agree.
    fn fixed_subnet(
        &mut self,
        fixed: &[&Fixed],
        reserved: &mut BTreeMap<u128, (Subnet, At)>,
    ) -> Option<Subnet> {
        let first = fixed.first()?;
        let subnet = Subnet::of(first.address, first.prefix);
        for other in &fixed[1..] {
            if Subnet::of(other.address, other.prefix) != subnet {
                let message = format!(
                    "{}/{} and {}/{} are not in one subnet",
                    other.address, other.prefix, first.address, first.prefix
                );
                self.sink
                    .report(Code::AddressClash, &other.at, message)
                    .also(&first.at, "on the same segment")
                    .help("interfaces that a link or switch joins share one subnet");
            }
        }
        // They are disjoint, so of those that begin before the end only the last can overlap.
        let near = reserved.range(..=subnet.end()).next_back();
        if let Some((_, (_, at))) = near.filter(|(_, (other, _))| other.overlaps(subnet)) {
            let message = format!("{}/{} overlaps another segment", first.address, first.prefix);
            self.sink
                .report(Code::AddressClash, &first.at, message)
                .also(at, "the other segment")
                .help("each link, or group of links around switches, has a separate subnet");
        } else {
            reserved.insert(subnet.start, (subnet, first.at.clone()));
        }
        Some(subnet)
    }

    /// Assigns the fixed addresses, and the next free ones to other interfaces.
    fn fill(&mut self, segment: &[IfaceId], subnet: Subnet, fixed: &[&Fixed], is_v4: bool) {
        let step = if is_v4 { 1u128 << 96 } else { 1 };
        let no_v6 = !is_v4 && self.is_too_narrow(segment);
        let taken: BTreeSet<u128> = fixed.iter().map(|fixed| bits(fixed.address)).collect();
        // Subnets of two addresses have no broadcast address (RFC 3021).
        let (lowest, highest) = if is_v4 && subnet.prefix >= 31 {
            (subnet.start, subnet.end() & mask(32))
        } else if is_v4 {
            (subnet.start + step, (subnet.end() & mask(32)) - step)
        } else {
            (subnet.start + step, subnet.end())
        };
        for fixed in fixed {
            if no_v6 {
                self.sink
                    .report(Code::BadAddress, &fixed.at, "this link's MTU is too small for IPv6")
                    .help("IPv6 needs 1280 B at least (RFC 8200 §5)");
            } else if Subnet::of(fixed.address, fixed.prefix) == subnet
                && !(lowest..=highest).contains(&bits(fixed.address))
            {
                let message = format!("{} stands for the whole subnet", fixed.address);
                self.sink
                    .report(Code::BadAddress, &fixed.at, message)
                    .help("choose an address inside of the subnet");
            }
        }
        let mut next = lowest;
        for &iface in segment {
            let own = fixed.iter().find(|fixed| fixed.iface == iface).map(|f| bits(f.address));
            while own.is_none() && next <= highest && taken.contains(&next) {
                next += step;
            }
            if own.is_none() && next > highest {
                let at = fixed.first().map_or(0..0, |fixed| fixed.at.clone());
                let message = format!("{} interfaces share this subnet", segment.len());
                self.sink
                    .report(Code::AddressClash, &at, message)
                    .help("it has too few addresses: use a shorter prefix");
                return;
            }
            let address = own.unwrap_or(next);
            if own.is_none() {
                next += step;
            }
            let entry = &mut self.plan.ifaces[iface.index()];
            if is_v4 {
                entry.v4 = Some((v4(address), subnet.prefix));
            } else if !no_v6 {
                entry.v6 = Some((Ipv6Addr::from_bits(address), subnet.prefix));
            }
        }
    }

    /// Whether a link of the segment has an MTU below the minimum of IPv6.
    fn is_too_narrow(&self, segment: &[IfaceId]) -> bool {
        segment.iter().any(|iface| {
            let link = &self.plan.links[iface.index() / 2];
            link.directions.iter().any(|direction| direction.mtu < MIN_V6_MTU)
        })
    }
}

/// The next free IPv4 subnet for `hosts` interfaces.
fn free_v4(hosts: usize, cursor: &mut u128, reserved: &[Subnet]) -> Option<Subnet> {
    let size = (hosts as u64 + 2).next_power_of_two().max(4);
    let prefix = u8::try_from(32 - size.trailing_zeros()).ok()?;
    let step = u128::from(size) << 96;
    let mut start = cursor.next_multiple_of(step);
    loop {
        let subnet = Subnet { start, prefix };
        if subnet.end() > POOL_V4.end() {
            return None;
        }
        if let Some(other) = overlapping(subnet, reserved) {
            start = (other.end() + 1).next_multiple_of(step);
        } else {
            *cursor = subnet.end() + 1;
            return Some(subnet);
        }
    }
}

/// The IPv6 subnet of a segment; if a fixed one overlaps, one far above all others.
fn free_v6(index: usize, reserved: &[Subnet]) -> Subnet {
    let at = |index: u128| Subnet { start: POOL_V6 | (index << 64), prefix: 64 };
    let mut number = index as u128;
    while overlapping(at(number), reserved).is_some() && number < 1 << 32 {
        number += 1 << 24;
    }
    at(number)
}

/// The last of `reserved` that overlaps `subnet`; they are disjoint and ascending.
fn overlapping(subnet: Subnet, reserved: &[Subnet]) -> Option<Subnet> {
    // Of those that begin before the end only the last can overlap.
    let near = reserved.partition_point(|other| other.start <= subnet.end());
    reserved[..near].last().copied().filter(|other| other.overlaps(subnet))
}

fn find(joined: &mut [usize], link: usize) -> usize {
    let mut link = link;
    while joined[link] != link {
        joined[link] = joined[joined[link]];
        link = joined[link];
    }
    link
}

/// Parses an interface address such as `10.1.2.3/24`.
fn interface_address(text: &str) -> Result<(IpAddr, u8), &'static str> {
    let Some((address, prefix)) = text.split_once('/') else {
        return Err("the prefix length is missing");
    };
    let address: IpAddr = address.trim().parse().map_err(|_| "not an IP address")?;
    let prefix: u8 = prefix.trim().parse().map_err(|_| "the prefix length is not a number")?;
    let (longest, shortest) = if address.is_ipv4() { (31, 8) } else { (127, 16) };
    if !(shortest..=longest).contains(&prefix) {
        return Err("no segment has this prefix length");
    }
    let unfit = match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_multicast()
                || v4.is_unspecified()
                || v4.octets()[0] >= 240
                || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unspecified()
                || v6.is_unicast_link_local()
                || v6.to_ipv4_mapped().is_some()
        }
    };
    if unfit { Err("no interface may have this address") } else { Ok((address, prefix)) }
}
