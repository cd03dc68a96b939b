//! A captured packet from a file or a ring.

use base::Time;

/// Link type of a frame, numbered as in pcap files (`LINKTYPE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Capture time since 1970.
    pub time: Time,
    pub link: LinkType,
    /// Number of the capturing interface within the input.
    pub interface: u32,
    pub data: &'a [u8],
    /// Length on the wire in bytes; more than `data` if the capture truncated the frame.
    pub length: u32,
    /// The kernel reports that the outermost TCP checksum is not to be verified: the packet was
    /// merged on receipt or will be split on transmission (`TP_STATUS_CSUMNOTREADY`), or the
    /// network card has verified it (`TP_STATUS_CSUM_VALID`).
    pub without_checksum: bool,
}

impl<'a> Frame<'a> {
    /// A frame of interface 0 that the capture did not truncate.
    #[inline]
    pub const fn whole(time: Time, link: LinkType, data: &'a [u8]) -> Self {
        Self { time, link, interface: 0, data, length: data.len() as u32, without_checksum: false }
    }
}
