//! Streams of clones: what tells them apart, and their numbers.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::net::IpAddr;

use super::{Settings, TunnelId};
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

/// A mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// What makes it, for people: the same in each run with equal interface names. Empty where the
    /// number is not used.
    pub name: String,
    /// What makes it, from the outside in. The first one is the interface of the input. Empty
    /// while it is only known from an earlier run.
    pub tags: Vec<Tag>,
    /// The innermost tunnel with sequence numbers that it came by.
    pub tunnel: Option<TunnelId>,
    /// Segments of BGP that came by it.
    pub segments: u64,
}

/// The name of the mirror that `tags` make, with the names of interfaces where there are some.
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

/// All mirrors, by what makes them.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    /// The mirror with number n is at n - 1.
    list: Vec<Mirror>,
    numbers: HashMap<Vec<Tag>, usize>,
    /// Mirrors of an earlier run, by name, that this run has not seen.
    unseen: HashMap<String, usize>,
    /// Places in `list` that an earlier run did not use, the first one last.
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

    /// The mirror with `tags`, which may be a new one; `None` if there are `limit` others.
    #[inline]
    pub(super) fn at(
        &mut self,
        tags: &[Tag],
        tunnel: Option<TunnelId>,
        settings: &Settings,
    ) -> Option<MirrorId> {
        let is_last = |last: &Mirror| last.segments > 0 && last.tags == tags;
        if !self.list.get(self.last).is_some_and(is_last) {
            self.last = self.find(tags, settings)?;
        }
        let mirror = &mut self.list[self.last];
        mirror.segments += 1;
        mirror.tunnel = tunnel;
        Some(MirrorId(self.last as u32 + 1))
    }

    fn find(&mut self, tags: &[Tag], settings: &Settings) -> Option<usize> {
        if let Some(at) = self.numbers.get(tags) {
            return Some(*at);
        }
        let name = name(tags, &settings.interfaces);
        let known = self.unseen.remove(&name).or_else(|| self.free.pop());
        let at = known.unwrap_or(self.list.len());
        if at >= settings.mirrors.min(MirrorId::MAX.0 as usize) {
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
    fn mirrors_keep_the_numbers_of_an_earlier_run() {
        let settings = Settings { interfaces: vec!["eth1".to_owned()], ..Settings::default() };
        let tags = |vlan| [Tag::Interface(0), Tag::Vlan(vlan)];
        let mut first = Mirrors::default();
        for vlan in [10, 20, 30] {
            first.at(&tags(vlan), None, &settings);
        }
        assert_eq!(first.list()[1].name, "eth1, VLAN 20");
        // VLAN 10 had no session, and was not kept.
        let known = [(MirrorId(3), "eth1, VLAN 30"), (MirrorId(2), "eth1, VLAN 20")];
        let mut second =
            Mirrors::with_known(&known.map(|(number, name)| (number, name.to_owned())));
        let mut at = |vlan| second.at(&tags(vlan), None, &settings);
        assert_eq!([20, 40, 50, 30].map(|vlan| at(vlan).unwrap().0), [2, 1, 4, 3]);
    }
}
