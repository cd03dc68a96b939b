//! Streams of clones: what tells them apart, and their numbers.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use super::TunnelId;
use crate::MirrorId;

/// Something that tells one stream of clones from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    /// The interface of the input.
    Interface(u32),
    /// The capturing machine's own interface (cooked captures).
    Device(u32),
    /// IEEE 802.1Q VLAN.
    Vlan(u16),
    /// The ends of a tunnel, the lower address first: replies on the same tunnel belong to it.
    Ends(IpAddr, IpAddr),
    /// GRE key (RFC 2890).
    Key(u32),
    /// ERSPAN session.
    Session(u16),
    /// VXLAN or Geneve network identifier.
    Network(u32),
    /// Mirror and session of Juniper's packet mirroring.
    Juniper(u32, u32),
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(number) => write!(f, "interface {number}"),
            Self::Device(number) => write!(f, "device {number}"),
            Self::Vlan(vlan) => write!(f, "VLAN {vlan}"),
            Self::Ends(low, high) => write!(f, "tunnel {low} – {high}"),
            Self::Key(key) => write!(f, "GRE key {key}"),
            Self::Session(session) => write!(f, "ERSPAN session {session}"),
            Self::Network(network) => write!(f, "VNI {network}"),
            Self::Juniper(mirror, session) => write!(f, "mirror {mirror}, session {session}"),
        }
    }
}

/// A stream of clones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// What makes it, from the outside in. The first one is the interface of the input.
    pub tags: Vec<Tag>,
    /// The innermost tunnel with sequence numbers that it came by.
    pub tunnel: Option<TunnelId>,
    /// Segments of BGP that came by it.
    pub segments: u64,
}

impl fmt::Display for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, tag) in self.tags.iter().enumerate() {
            write!(f, "{}{tag}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// All streams of clones, by what makes them.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    list: Vec<Mirror>,
    numbers: HashMap<Vec<Tag>, u32>,
    last: usize,
}

impl Mirrors {
    pub(super) fn list(&self) -> &[Mirror] {
        &self.list
    }

    /// The stream with `tags`, which may be a new one; `None` if there are `limit` others.
    #[inline]
    pub(super) fn at(
        &mut self,
        tags: &[Tag],
        tunnel: Option<TunnelId>,
        limit: usize,
    ) -> Option<MirrorId> {
        if self.list.get(self.last).is_none_or(|last| last.tags != tags) {
            self.last = self.find(tags, limit)?;
        }
        let mirror = &mut self.list[self.last];
        mirror.segments += 1;
        mirror.tunnel = tunnel;
        Some(MirrorId(self.last as u32))
    }

    fn find(&mut self, tags: &[Tag], limit: usize) -> Option<usize> {
        if let Some(number) = self.numbers.get(tags) {
            return Some(*number as usize);
        }
        let number = self.list.len();
        if number >= limit {
            return None;
        }
        self.list.push(Mirror { tags: tags.to_vec(), tunnel: None, segments: 0 });
        self.numbers.insert(tags.to_vec(), number as u32);
        Some(number)
    }
}
