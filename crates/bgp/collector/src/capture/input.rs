//! What both formats share: the state of an input, and the results of its steps.

use std::collections::BTreeMap;

use base::Time;

use crate::{Frame, LinkType};

/// Maximum packet length without a limit in the file's header, as in libpcap.
pub(super) const LENGTH_MAX: u32 = 262_144;
/// Maximum packet length in any file.
pub(super) const LENGTH_LIMIT: u32 = 16 << 20;
/// Maximum number of interfaces of one input, over all sections.
pub(super) const INTERFACES_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub link: LinkType,
    pub name: Option<String>,
    /// Snap length in bytes; 0 for no limit.
    pub snap: u32,
    pub dropped: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Input {
    /// Interfaces of all sections. An interface of a later section has the number of the one with
    /// its name, or without a name of the one with its position and link type.
    pub(super) interfaces: Vec<Interface>,
    named: BTreeMap<String, u32>,
    unnamed: BTreeMap<(u32, u16), u32>,
    pub(super) offset: u64,
    pub(super) last: Time,
    pub(super) skip: u64,
}

impl Input {
    /// Number of the interface at position `at` of its section, which may be new; `None` if there
    /// are too many.
    pub(super) fn number_of(&mut self, interface: Interface, at: u32) -> Option<u32> {
        let place = (at, interface.link.0);
        let known = match &interface.name {
            Some(name) => self.named.get(name),
            None => self.unnamed.get(&place),
        };
        if let Some(known) = known {
            return Some(*known);
        }
        if self.interfaces.len() == INTERFACES_MAX {
            return None;
        }
        let number = self.interfaces.len() as u32;
        match &interface.name {
            Some(name) => self.named.insert(name.clone(), number),
            None => self.unnamed.insert(place, number),
        };
        self.interfaces.push(interface);
        Some(number)
    }

    pub(super) fn dropped(&mut self, interface: u32, packets: u64) {
        if let Some(interface) = self.interfaces.get_mut(interface as usize) {
            interface.dropped = interface.dropped.saturating_add(packets);
        }
    }
}

/// Result of one step. The caller skips `used` bytes before the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Frame {
        frame: Frame<'a>,
        used: usize,
    },
    Skip {
        used: usize,
    },
    /// At least `bytes` bytes are required, counted from the first unread byte.
    Need {
        bytes: usize,
    },
    /// The capture reports packets that were lost since its last report.
    Dropped {
        interface: u32,
        packets: u64,
        used: usize,
    },
    /// The reader skips damaged bytes and searches for the next record. Reported once per place.
    Damaged {
        offset: u64,
        used: usize,
    },
    Torn {
        offset: u64,
        bytes: usize,
    },
    End,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    pub(super) big: bool,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

pub(super) enum Record {
    Unseen,
    Bytes(usize),
    Impossible,
}

pub(super) enum Found {
    At(usize),
    /// No record begins before this offset, which is above 0.
    NotBefore(usize),
    /// This many bytes are required for a decision.
    Need(usize),
}
