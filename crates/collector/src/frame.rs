//! A captured packet, as a file or a ring gives it.

use base::Time;

/// What the bytes of a frame begin with, as pcap files number it (`LINKTYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

#[expect(missing_docs, reason = "the names are the registry's")]
impl LinkType {
    pub const NULL: Self = Self(0);
    pub const ETHERNET: Self = Self(1);
    pub const PPP: Self = Self(9);
    pub const PPP_HDLC: Self = Self(50);
    pub const RAW: Self = Self(101);
    pub const CISCO_HDLC: Self = Self(104);
    pub const LOOP: Self = Self(108);
    pub const LINUX_SLL: Self = Self(113);
    pub const IPV4: Self = Self(228);
    pub const IPV6: Self = Self(229);
    pub const LINUX_SLL2: Self = Self(276);
}

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it was captured, since 1970.
    pub time: Time,
    /// What `data` begins with.
    pub link: LinkType,
    /// The interface that saw it: its number within the input.
    pub interface: u32,
    /// What was captured of it.
    pub data: &'a [u8],
    /// How long it was on the wire, in bytes: more than `data` where the capture was cut.
    pub length: u32,
}
