//! Converts frames to TCP segments of BGP: removes all encapsulations.
//!
//! # Problem
//!
//! Clones arrive plain, with VLAN tags or MPLS labels, in GRE or ERSPAN, in VXLAN, Geneve, TZSP or
//! another IP header, with several of these nested, and in fragments. Each must give the same
//! segment. Clones of two routers with the same addresses must stay separate, so the encapsulation
//! determines the [`MirrorId`].
//!
//! # Method
//!
//! `layer` finds the IP header, `ip` finds the payload. A TCP segment ends the search; a tunnel
//! starts it again one level deeper. Headers are read in place; only fragments are copied.
//! Length fields are checked against the available bytes, and no packet can exceed the limits
//! of the tables.

mod counters;
mod fragment;
mod ip;
mod layer;
mod mirror;
mod offload;
mod packet;
mod sequence;
#[cfg(test)]
pub(crate) mod tests;
mod tunnel;

use std::net::SocketAddr;

use base::Time;

use crate::segment::flags;
use crate::{Checksum, Frame, LinkType, MirrorId, Segment};
pub use counters::Counters;
pub use fragment::FragmentLimits;
use fragment::{Beginning, Fragments};
use ip::{Ip, protocol};
pub(crate) use layer::OTHER_TAGS;
use mirror::Mirrors;
pub use mirror::{Mirror, Tag};
use offload::{Facts, Senders, Sum};
use packet::{Layer, Packet, Skip, begins_message};
pub use sequence::{Tunnel, TunnelEnds, TunnelId, TunnelLoss};
pub use tunnel::Tunnels;

/// Maximum number of nested tunnels.
const DEPTH_MAX: u8 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Verify checksums, except those of senders that use checksum offload.
    #[default]
    Detect,
    Always,
    /// Do not verify: each segment is [`Checksum::Unknown`].
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub ports: Vec<u16>,
    pub tunnels: Tunnels,
    pub verify: Verify,
    /// Treats all mirrors as one: a segment that two routers cloned is then a duplicate.
    pub merge: bool,
    pub fragments: FragmentLimits,
    pub mirrors: usize,
    /// Names of the input's interfaces by number, for the names of mirrors.
    pub interfaces: Vec<String>,
    /// Mirrors of an earlier run, which keep their numbers and names.
    pub known_mirrors: Vec<(MirrorId, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ports: vec![179],
            tunnels: Tunnels::all(),
            verify: Verify::Detect,
            merge: false,
            fragments: FragmentLimits::default(),
            mirrors: 65_535,
            interfaces: Vec::new(),
            known_mirrors: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub struct Decapsulator {
    settings: Settings,
    counters: Counters,
    mirrors: Mirrors,
    senders: Senders,
    fragments: Fragments,
    sequences: sequence::Tunnels,
    tags: Vec<Tag>,
    tunnel: Option<TunnelId>,
    /// [`Frame::without_checksum`] of the current frame, except in tunnels.
    without_checksum: bool,
}

impl Decapsulator {
    pub fn new(settings: Settings) -> Self {
        Self {
            mirrors: Mirrors::with_known(&settings.known_mirrors),
            settings,
            counters: Counters::default(),
            senders: Senders::default(),
            fragments: Fragments::default(),
            sequences: sequence::Tunnels::default(),
            tags: Vec::new(),
            tunnel: None,
            without_checksum: false,
        }
    }

    pub fn segments(&mut self, frame: &Frame<'_>, out: &mut impl FnMut(&Segment<'_>)) {
        self.counters.frames += 1;
        self.tags.clear();
        self.tags.push(Tag::Interface(frame.interface));
        self.tunnel = None;
        self.without_checksum = frame.without_checksum;
        match self.frame(frame, out) {
            Ok(()) => {}
            Err(Skip::Fragment) => self.beginnings(frame.time, out),
            Err(skip) => self.count(skip),
        }
    }

    fn count(&mut self, skip: Skip) {
        let counters = &mut self.counters;
        match skip {
            Skip::Foreign => counters.foreign += 1,
            Skip::OtherPort => counters.other_ports += 1,
            Skip::Link(link) => {
                if counters.unknown_links == 0 {
                    counters.unknown_link = LinkType(link);
                }
                counters.unknown_links += 1;
            }
            Skip::Truncated => counters.truncated += 1,
            Skip::Malformed => counters.malformed += 1,
            Skip::Deep => counters.deep += 1,
            Skip::Mirrors => counters.mirrors_refused += 1,
            Skip::Fragment => {}
        }
    }

    /// Processes the available start of discarded datagrams.
    fn beginnings(&mut self, time: Time, out: &mut impl FnMut(&Segment<'_>)) {
        self.without_checksum = false;
        while let Some(beginning) = self.fragments.beginning() {
            let Beginning { within, source, destination, protocol, bytes, missing, .. } = beginning;
            (self.tags, self.tunnel) = (within.tags, within.tunnel);
            let payload = Packet { bytes: &bytes, cut: missing };
            let mut ip = Ip {
                source,
                destination,
                protocol,
                payload,
                part: None,
                reassembled: true,
                damaged: false,
                first_part: None,
            };
            let read =
                ip::extensions(&mut ip).and_then(|()| self.carried(time, &ip, within.depth, out));
            if let Err(skip) = read {
                self.count(skip);
            }
        }
    }

    /// Examines the first frames of an input, before any is processed, to determine
    /// whether its checksums are meaningful: if all are wrong, the cause is offload and
    /// not damage. Counts nothing.
    pub fn learn<'a>(&mut self, frames: impl IntoIterator<Item = Frame<'a>>) {
        let mut trial = Self::new(self.settings.clone());
        for frame in frames {
            trial.segments(&frame, &mut |_| {});
        }
        trial.senders.lenient();
        self.senders = trial.senders;
    }

    pub fn counters(&self) -> Counters {
        Counters { fragments_pending: self.fragments.pending(), ..self.counters }
    }

    /// All mirrors: mirror n has index n - 1.
    pub fn mirrors(&self) -> &[Mirror] {
        self.mirrors.list()
    }

    /// Tunnels with sequence numbers; [`TunnelId`] is an index.
    pub fn tunnels(&self) -> &[Tunnel] {
        &self.sequences.list
    }

    /// Reports losses in tunnels since the last call. A loss is detected at most 64 packets later,
    /// or at [`Decapsulator::end`].
    pub fn losses(&mut self, tell: &mut impl FnMut(&TunnelLoss)) {
        self.sequences.losses(tell);
    }

    /// Nothing more comes: what may still have come late is lost now. Gives `out` the segments
    /// in the beginnings of datagrams whose other fragments did not come.
    pub fn end(&mut self, time: Time, out: &mut impl FnMut(&Segment<'_>)) {
        // The start of an incomplete datagram may contain a fragment of an inner datagram; tunnels
        // are at most `DEPTH_MAX` deep.
        while self.fragments.end(&mut self.counters) {
            self.beginnings(time, out);
        }
        self.sequences.end();
    }

    fn frame(&mut self, frame: &Frame<'_>, out: &mut impl FnMut(&Segment<'_>)) -> Result<(), Skip> {
        let cut = frame.length.saturating_sub(frame.data.len() as u32);
        let (layer, bytes) = layer::first(frame.link, frame.data, &mut self.tags)?;
        self.down(frame.time, layer, Packet { bytes, cut }, 0, out)
    }

    /// Processes `packet`, which starts with `layer`, at the tunnel nesting level `depth`.
    fn down(
        &mut self,
        time: Time,
        layer: Layer,
        packet: Packet<'_>,
        depth: u8,
        out: &mut impl FnMut(&Segment<'_>),
    ) -> Result<(), Skip> {
        let packet = layer::descend(layer, packet, &mut self.tags, &self.settings.tunnels)?;
        let ip = ip::parse(packet)?;
        let Some(part) = ip.part else { return self.carried(time, &ip, depth, out) };
        if !self.wanted(&ip) {
            return Err(Skip::Foreign);
        }
        if part.offset == 0 && ip.payload.cut > 0 {
            // The datagram will stay incomplete: only the captured part can be used.
            let mut ip = Ip { part: None, ..ip };
            ip::extensions(&mut ip)?;
            return self.carried(time, &ip, depth, out);
        }
        let (limits, counters) = (&self.settings.fragments, &mut self.counters);
        let within = (&self.tags[..], self.tunnel, depth);
        let whole = self.fragments.add(time, within, &ip, part, limits, counters);
        let Some(whole) = whole else { return Err(Skip::Fragment) };
        let payload = Packet { bytes: &whole.bytes, cut: 0 };
        let mut ip = Ip { protocol: whole.protocol, payload, part: None, reassembled: true, ..ip };
        ip::extensions(&mut ip)?;
        if ip.part.is_some() {
            return Err(Skip::Malformed);
        }
        self.carried(time, &ip, depth, out)
    }

    /// Whether fragments of this protocol may contain a segment.
    fn wanted(&self, ip: &Ip<'_>) -> bool {
        let tunnels = &self.settings.tunnels;
        match ip.protocol {
            protocol::TCP | protocol::AUTHENTICATION | protocol::DESTINATION => true,
            protocol::IPV4 | protocol::IPV6 => tunnels.ip,
            protocol::GRE => tunnels.gre,
            protocol::MPLS => tunnels.mpls,
            protocol::UDP => tunnels.udp_ports().next().is_some(),
            _ => false,
        }
    }

    fn carried(
        &mut self,
        time: Time,
        ip: &Ip<'_>,
        depth: u8,
        out: &mut impl FnMut(&Segment<'_>),
    ) -> Result<(), Skip> {
        if ip.protocol == protocol::TCP {
            return self.segment(time, ip, out);
        }
        self.without_checksum = false;
        if !self.wanted(ip) {
            return Err(Skip::Foreign);
        }
        if depth == DEPTH_MAX {
            return Err(Skip::Deep);
        }
        let (low, high) = (ip.source.min(ip.destination), ip.source.max(ip.destination));
        self.tags.push(Tag::Ends(low, high));
        let (layer, bytes) = match ip.protocol {
            protocol::IPV4 | protocol::IPV6 => (Layer::Ip, ip.payload.bytes),
            protocol::MPLS => (Layer::Mpls, ip.payload.bytes),
            protocol::GRE => self.gre(time, ip)?,
            _ => tunnel::udp(ip.payload.bytes, &self.settings.tunnels, &mut self.tags)?,
        };
        self.down(time, layer, Packet { bytes, cut: ip.payload.cut }, depth + 1, out)
    }

    fn gre<'a>(&mut self, time: Time, ip: &Ip<'a>) -> Result<(Layer, &'a [u8]), Skip> {
        let gre = tunnel::gre(ip.payload.bytes)?;
        let (key, session) = (gre.key, gre.session);
        let (source, destination) = (ip.source, ip.destination);
        if let Some(number) = gre.sequence {
            let ends = TunnelEnds { source, destination, key, session };
            self.tunnel = self.sequences.packet(time, ends, number).or(self.tunnel);
        }
        self.tags.extend(key.map(Tag::Key));
        self.tags.extend(session.map(Tag::Session));
        self.tags.extend((gre.vlan != 0).then_some(Tag::Vlan(gre.vlan)));
        Ok((gre.layer, gre.bytes))
    }

    fn segment(
        &mut self,
        time: Time,
        ip: &Ip<'_>,
        out: &mut impl FnMut(&Segment<'_>),
    ) -> Result<(), Skip> {
        let Packet { bytes, cut } = ip.payload;
        let Some(ports) = bytes.first_chunk::<4>() else { return Err(Skip::Truncated) };
        let source = u16::from_be_bytes([ports[0], ports[1]]);
        let destination = u16::from_be_bytes([ports[2], ports[3]]);
        let wanted = &self.settings.ports;
        if !wanted.contains(&source) && !wanted.contains(&destination) {
            self.count_other_bgp(bytes, source.min(destination));
            return Err(Skip::OtherPort);
        }
        let Some(header) = bytes.first_chunk::<20>() else { return Err(Skip::Truncated) };
        let length = usize::from(header[12] >> 4) * 4;
        if length < 20 || length > bytes.len() + cut as usize {
            return Err(Skip::Malformed);
        }
        let tags = if self.settings.merge { &self.tags[..0] } else { &self.tags[..] };
        let Settings { interfaces, mirrors, .. } = &self.settings;
        let Some(mirror) = self.mirrors.at(tags, self.tunnel, interfaces, *mirrors) else {
            return Err(Skip::Mirrors);
        };
        // The snap length may end within the options.
        let options = length.saturating_sub(bytes.len()) as u32;
        let payload = bytes.get(length..).unwrap_or_default();
        let is_syn = header[13] & flags::SYN != 0;
        let facts = Facts {
            mirror,
            source: ip.source,
            destination: ip.destination,
            counts: is_syn || !payload.is_empty(),
            length: bytes.len().saturating_sub(header.len()) as u32,
            mss: if is_syn { offload::mss(bytes.get(20..length).unwrap_or_default()) } else { 0 },
            is_single: ip.reassembled,
        };
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let segment = Segment {
            time,
            mirror,
            is_device: tags.iter().any(|tag| matches!(tag, Tag::Device(_))),
            source: SocketAddr::new(ip.source, source),
            destination: SocketAddr::new(ip.destination, destination),
            sequence: word(4),
            acknowledgment: word(8),
            flags: header[13] & 0x1f,
            payload,
            missing: cut - options,
            checksum: self.verdict(ip, facts, length),
        };
        self.counters.segments += 1;
        out(&segment);
        Ok(())
    }

    /// Counts a segment of another port if it starts with a BGP message.
    fn count_other_bgp(&mut self, bytes: &[u8], port: u16) {
        let header = bytes.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
        if begins_message(bytes.get(header..).unwrap_or_default()) {
            if self.counters.other_bgp == 0 {
                self.counters.other_bgp_port = port;
            }
            self.counters.other_bgp += 1;
        }
    }

    /// Verdict on the checksum of a segment with a header of `header` bytes.
    fn verdict(&mut self, ip: &Ip<'_>, mut facts: Facts, header: usize) -> Checksum {
        let counters = &mut self.counters;
        counters.snapped += u64::from(ip.payload.cut > 0);
        if self.settings.verify == Verify::Never {
            counters.bad_headers += u64::from(ip.damaged);
            counters.unknown_checksums += 1;
            return Checksum::Unknown;
        }
        let mut sum = if ip.payload.cut > 0 { Sum::Unknown } else { offload::sum(ip) };
        let mut parts = Vec::new();
        if self.without_checksum && sum != Sum::Right {
            sum = Sum::Unknown;
        } else if sum == Sum::Wrong && !ip.reassembled && self.settings.verify == Verify::Detect {
            parts = offload::first_parts(ip, header);
        }
        if ip.damaged && parts.is_empty() {
            counters.bad_headers += 1;
            facts.is_single = true;
            sum = if sum == Sum::Right { sum } else { Sum::Wrong };
        }
        let verdict = match (self.settings.verify, sum) {
            (Verify::Always, Sum::Wrong | Sum::Pseudo | Sum::Partial) => Checksum::Wrong,
            (_, sum) => self.senders.judge(sum, &facts, &parts),
        };
        match verdict {
            Checksum::Right => {}
            Checksum::Wrong => counters.bad_checksums += 1,
            Checksum::Doubtful | Checksum::Unknown => counters.unknown_checksums += 1,
        }
        verdict
    }
}
