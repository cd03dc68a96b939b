//! From frames to TCP segments of BGP, through whatever carries them.
//!
//! # Problem
//!
//! Routers send clones in many ways: as they are, with VLAN tags or labels, in GRE or ERSPAN, in
//! VXLAN, Geneve, TZSP or another IP header, several of these at once, in fragments. The same
//! segment must come out of each; and two routers' clones of the same addresses must stay apart,
//! so what carried a segment becomes its [`MirrorId`].
//!
//! # Method
//!
//! `layer` goes down to an IP header; `ip` goes behind it; a TCP segment is done, a tunnel begins
//! again one level deeper. All headers are read where they lie; only fragments are copied.
//! Nothing that a header claims is believed beyond the bytes that are there, and no packet makes
//! the tables larger than their limits.

mod fragment;
mod ip;
mod layer;
mod mirror;
mod offload;
mod sequence;
#[cfg(test)]
pub(crate) mod tests;
mod tunnel;

use std::net::SocketAddr;

use base::Time;

use crate::segment::flags;
use crate::{Checksum, Frame, MirrorId, Segment};
pub use fragment::FragmentLimits;
use fragment::{Beginning, Fragments};
use ip::{Ip, protocol};
use layer::Layer;
use mirror::Mirrors;
pub use mirror::{Mirror, Tag};
use offload::{Senders, Sum};
pub use sequence::{Tunnel, TunnelEnds, TunnelId, TunnelLoss};
pub use tunnel::Tunnels;

/// Tunnels within tunnels that are followed.
const DEPTH_MAX: u8 = 4;

/// Which TCP checksums count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Those of senders that do not leave them to hardware.
    #[default]
    Detect,
    /// All.
    Always,
    /// None: each segment's is [`Checksum::Unknown`].
    Never,
}

/// What is looked for, and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// TCP ports of BGP.
    pub ports: Vec<u16>,
    /// Encapsulations that are looked into.
    pub tunnels: Tunnels,
    /// What TCP checksums count for.
    pub verify: Verify,
    /// Takes all streams of clones for one: a segment that two routers cloned is then a duplicate.
    pub merge: bool,
    /// Bounds on incomplete datagrams.
    pub fragments: FragmentLimits,
    /// Max mirrors; there are at most 65,535.
    pub mirrors: usize,
    /// Names of the input's interfaces, by number, for the names of mirrors.
    pub interfaces: Vec<String>,
    /// Numbers and names of mirrors in an earlier run, which are given to the same mirrors.
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

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames.
    pub frames: u64,
    /// Segments of BGP that were handed on.
    pub segments: u64,
    /// Frames that carry something else than TCP.
    pub foreign: u64,
    /// TCP segments of other ports.
    pub other_ports: u64,
    /// Frames of a link type that is not known.
    pub unknown_links: u64,
    /// Frames that were cut, or end, before the TCP header does.
    pub truncated: u64,
    /// Frames with a header that contradicts itself.
    pub malformed: u64,
    /// Frames with more tunnels, tags or extension headers than are followed.
    pub deep: u64,
    /// Segments of streams of clones beyond the limit.
    pub mirrors_refused: u64,
    /// IPv4 headers of BGP segments with a wrong checksum.
    pub bad_headers: u64,
    /// Segments with a wrong TCP checksum (or, cut short, a wrong one of the IPv4 header).
    pub bad_checksums: u64,
    /// Segments whose checksum says nothing: offload, or cut short.
    pub unknown_checksums: u64,
    /// Segments of which a part was not captured.
    pub snapped: u64,
    /// Fragments that wait for others.
    pub fragments_pending: u64,
    /// Fragments that became whole datagrams.
    pub fragments_joined: u64,
    /// Fragments that were given up: too late, or no memory.
    pub fragments_expired: u64,
    /// Fragments that came again.
    pub fragments_doubled: u64,
    /// Datagrams that were given up because their fragments overlap.
    pub fragments_overlapping: u64,
    /// Fragments that cannot be used: cut short, damaged, or of a length that none may have.
    pub fragments_bad: u64,
}

/// Why nothing comes out of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    Foreign,
    OtherPort,
    Link,
    Truncated,
    Malformed,
    Deep,
    Mirrors,
    Fragment,
}

/// Bytes from some header on, and how many more there were on the wire.
#[derive(Clone, Copy, Debug)]
struct Packet<'a> {
    bytes: &'a [u8],
    cut: u32,
}

/// Takes segments out of frames.
#[derive(Debug)]
pub struct Decapsulator {
    settings: Settings,
    counters: Counters,
    mirrors: Mirrors,
    senders: Senders,
    fragments: Fragments,
    sequences: sequence::Tunnels,
    /// What the present frame passed so far.
    tags: Vec<Tag>,
    tunnel: Option<TunnelId>,
}

impl Decapsulator {
    /// Before the first frame.
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
        }
    }

    /// Gives `out` the segment of BGP in `frame`, if there is one.
    pub fn segments(&mut self, frame: &Frame<'_>, out: &mut impl FnMut(&Segment<'_>)) {
        self.counters.frames += 1;
        self.tags.clear();
        self.tags.push(Tag::Interface(frame.interface));
        self.tunnel = None;
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
            Skip::Link => counters.unknown_links += 1,
            Skip::Truncated => counters.truncated += 1,
            Skip::Malformed => counters.malformed += 1,
            Skip::Deep => counters.deep += 1,
            Skip::Mirrors => counters.mirrors_refused += 1,
            Skip::Fragment => {}
        }
    }

    /// Reads what is there of datagrams that were given up.
    fn beginnings(&mut self, time: Time, out: &mut impl FnMut(&Segment<'_>)) {
        while let Some(beginning) = self.fragments.beginning() {
            let Beginning { within, source, destination, protocol, bytes, missing, .. } = beginning;
            (self.tags, self.tunnel) = (within.tags, within.tunnel);
            let payload = Packet { bytes: &bytes, cut: missing };
            let mut ip = Ip { source, destination, protocol, payload, part: None, damaged: false };
            let read =
                ip::extensions(&mut ip).and_then(|()| self.carried(time, &ip, within.depth, out));
            if let Err(skip) = read {
                self.count(skip);
            }
        }
    }

    /// Learns from the beginning of an input whether its checksums mean anything, before any of it
    /// is handed on: if all of them are wrong, they are not damage. Counts nothing.
    pub fn learn<'a>(&mut self, frames: impl IntoIterator<Item = Frame<'a>>) {
        let mut trial = Self::new(self.settings.clone());
        for frame in frames {
            trial.segments(&frame, &mut |_| {});
        }
        trial.senders.lenient();
        self.senders = trial.senders;
    }

    /// What became of frames so far.
    pub fn counters(&self) -> Counters {
        Counters { fragments_pending: self.fragments.pending(), ..self.counters }
    }

    /// All mirrors: the one with number n is at n - 1.
    pub fn mirrors(&self) -> &[Mirror] {
        self.mirrors.list()
    }

    /// Tunnels with sequence numbers: [`TunnelId`] is an index.
    pub fn tunnels(&self) -> &[Tunnel] {
        &self.sequences.list
    }

    /// Tells what tunnels lost since the last call. A loss is known 64 packets after it at the
    /// latest, or at [`Decapsulator::end`].
    pub fn losses(&mut self, tell: &mut impl FnMut(&TunnelLoss)) {
        self.sequences.losses(tell);
    }

    /// Nothing more comes: what may still have come late is lost now. Gives `out` the segments
    /// in the beginnings of datagrams whose other fragments did not come.
    pub fn end(&mut self, time: Time, out: &mut impl FnMut(&Segment<'_>)) {
        self.fragments.end(&mut self.counters);
        self.beginnings(time, out);
        self.sequences.end();
    }

    fn frame(&mut self, frame: &Frame<'_>, out: &mut impl FnMut(&Segment<'_>)) -> Result<(), Skip> {
        let cut = frame.length.saturating_sub(frame.data.len() as u32);
        let (layer, bytes) = layer::first(frame.link, frame.data, &mut self.tags)?;
        self.down(frame.time, layer, Packet { bytes, cut }, 0, out)
    }

    /// Goes on with `packet`, which begins with `layer`, within `depth` tunnels.
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
            // It will never be whole: what was captured of it is all there is.
            let mut ip = Ip { part: None, ..ip };
            ip::extensions(&mut ip)?;
            return self.carried(time, &ip, depth, out);
        }
        let (limits, counters) = (&self.settings.fragments, &mut self.counters);
        let within = (&self.tags[..], self.tunnel, depth);
        let whole = self.fragments.add(time, within, &ip, part, limits, counters);
        let Some(whole) = whole else { return Err(Skip::Fragment) };
        let payload = Packet { bytes: &whole.bytes, cut: 0 };
        let mut ip = Ip { protocol: whole.protocol, payload, part: None, ..ip };
        ip::extensions(&mut ip)?;
        if ip.part.is_some() {
            return Err(Skip::Malformed);
        }
        self.carried(time, &ip, depth, out)
    }

    /// Whether fragments of this protocol may lead to a segment.
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

    /// Goes on with what `ip` carries.
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

    /// Hands on the TCP segment that `ip` carries.
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
            return Err(Skip::OtherPort);
        }
        let Some(header) = bytes.first_chunk::<20>() else { return Err(Skip::Truncated) };
        let length = usize::from(header[12] >> 4) * 4;
        if length < 20 || length > bytes.len() + cut as usize {
            return Err(Skip::Malformed);
        }
        let tags = if self.settings.merge { &self.tags[..0] } else { &self.tags[..] };
        let Some(mirror) = self.mirrors.at(tags, self.tunnel, &self.settings) else {
            return Err(Skip::Mirrors);
        };
        // A snap may end within the options.
        let options = length.saturating_sub(bytes.len()) as u32;
        let payload = bytes.get(length..).unwrap_or_default();
        let counts = header[13] & flags::SYN != 0 || !payload.is_empty();
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let segment = Segment {
            time,
            mirror,
            source: SocketAddr::new(ip.source, source),
            destination: SocketAddr::new(ip.destination, destination),
            sequence: word(4),
            acknowledgment: word(8),
            flags: header[13] & 0x1f,
            payload,
            missing: cut - options,
            checksum: self.verdict(ip, mirror, counts),
        };
        self.counters.segments += 1;
        out(&segment);
        Ok(())
    }

    /// What the checksums of a segment say. `counts`: it has a SYN or payload.
    fn verdict(&mut self, ip: &Ip<'_>, mirror: MirrorId, counts: bool) -> Checksum {
        let counters = &mut self.counters;
        counters.bad_headers += u64::from(ip.damaged);
        counters.snapped += u64::from(ip.payload.cut > 0);
        if self.settings.verify == Verify::Never {
            counters.unknown_checksums += 1;
            return Checksum::Unknown;
        }
        let mut sum = if ip.payload.cut > 0 { Sum::Unknown } else { offload::sum(ip) };
        if ip.damaged && sum != Sum::Right {
            sum = Sum::Wrong;
        }
        let verdict = match (self.settings.verify, sum) {
            (Verify::Always, Sum::Wrong | Sum::Partial) => Checksum::Wrong,
            (_, sum) => self.senders.judge(mirror, ip.source, sum, counts),
        };
        match verdict {
            Checksum::Right => {}
            Checksum::Wrong => counters.bad_checksums += 1,
            Checksum::Unknown => counters.unknown_checksums += 1,
        }
        verdict
    }
}
