//! Mirrors: streams of clones, the encapsulations that distinguish them, and their numbers.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::net::IpAddr;

use super::TunnelId;
use crate::MirrorId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    Interface(u32),
    Device(u32),
    /// IEEE 802.1Q VLAN.
    Vlan(u16),
    /// Addresses of a tunnel, the lower one first, so that both directions are equal.
    Ends(IpAddr, IpAddr),
    /// GRE key (RFC 2890).
    Key(u32),
    Session(u16),
    Network(u32),
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// Name of the mirror, the same in each run with equal interface names. Empty
    /// for unused numbers.
    pub name: String,
    /// Encapsulation from the outside in, starting with the interface. Empty for a mirror of an
    /// earlier run that was not seen in this one.
    pub tags: Vec<Tag>,
    /// Innermost tunnel with sequence numbers.
    pub tunnel: Option<TunnelId>,
    pub segments: u64,
}

/// Name of the mirror with `tags` and the names of interfaces.
fn name(tags: &[Tag], interfaces: &[String]) -> String {
    let mut name = String::new();
    for tag in tags {
        let separator = if name.is_empty() { "" } else { ", " };
        let known = match tag {
            Tag::Interface(number) => interfaces.get(*number as usize),
            _ => None,
        };
        let _ = match known {
            Some(interface) => write!(name, "{separator}{interface}"),
            None => write!(name, "{separator}{tag}"),
        };
    }
    if name.is_empty() { "all".to_owned() } else { name }
}

#[derive(Debug, Default)]
pub(super) struct Mirrors {
    /// Mirror n has index n - 1.
    list: Vec<Mirror>,
    numbers: HashMap<Vec<Tag>, usize>,
    /// Mirrors of an earlier run that were not seen in this one, by name.
    unseen: HashMap<String, usize>,
    /// Indices in `list` that an earlier run did not use, in descending order.
    free: Vec<usize>,
    last: usize,
}

impl Mirrors {
    /// Numbers and names of an earlier run, in any order; numbers out of range are ignored.
    pub(super) fn with_known(known: &[(MirrorId, String)]) -> Self {
        let mut mirrors = Self::default();
        for (number, name) in known {
            let Some(at) = number.index().filter(|_| *number <= MirrorId::MAX) else { continue };
            if at >= mirrors.list.len() {
                mirrors.list.resize(at + 1, Mirror::default());
            }
            mirrors.list[at].name.clone_from(name);
            mirrors.unseen.insert(name.clone(), at);
        }
        let unused = |at: &usize| mirrors.list[*at].name.is_empty();
        mirrors.free = (0..mirrors.list.len()).rev().filter(unused).collect();
        mirrors
    }

    pub(super) fn list(&self) -> &[Mirror] {
        &self.list
    }

    /// The mirror with `tags`, which may be new; `None` if `limit` mirrors exist.
    #[inline]
    pub(super) fn at(
        &mut self,
        tags: &[Tag],
        tunnel: Option<TunnelId>,
        interfaces: &[String],
        limit: usize,
    ) -> Option<MirrorId> {
        let is_last = |last: &Mirror| last.segments > 0 && last.tags == tags;
        if !self.list.get(self.last).is_some_and(is_last) {
            self.last = self.find(tags, interfaces, limit)?;
        }
        let mirror = &mut self.list[self.last];
        mirror.segments += 1;
        mirror.tunnel = tunnel;
        Some(MirrorId(self.last as u32 + 1))
    }

    fn find(&mut self, tags: &[Tag], interfaces: &[String], limit: usize) -> Option<usize> {
        if let Some(at) = self.numbers.get(tags) {
            return Some(*at);
        }
        let name = name(tags, interfaces);
        let known = self.unseen.remove(&name).or_else(|| self.free.pop());
        let at = known.unwrap_or(self.list.len());
        if at >= limit.min(MirrorId::MAX.0 as usize) {
            return None;
        }
        if at == self.list.len() {
            self.list.push(Mirror::default());
        }
        self.list[at] = Mirror { name, tags: tags.to_vec(), tunnel: None, segments: 0 };
        self.numbers.insert(tags.to_vec(), at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_mirror_numbers_across_runs() {
        let interfaces = ["eth1".to_owned()];
        let tags = |vlan| [Tag::Interface(0), Tag::Vlan(vlan)];
        let mut first = Mirrors::default();
        for vlan in [10, 20, 30] {
            first.at(&tags(vlan), None, &interfaces, 10);
        }
        assert_eq!(first.list()[1].name, "eth1, VLAN 20");
        // VLAN 10 had no session, and was not saved.
        let known = [(MirrorId(3), "eth1, VLAN 30"), (MirrorId(2), "eth1, VLAN 20")];
        let mut second =
            Mirrors::with_known(&known.map(|(number, name)| (number, name.to_owned())));
        let mut at = |vlan| second.at(&tags(vlan), None, &interfaces, 10);
        assert_eq!([20, 40, 50, 30].map(|vlan| at(vlan).unwrap().0), [2, 1, 4, 3]);
    }
}
