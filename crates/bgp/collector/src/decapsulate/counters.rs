//! Counters of a decapsulator.

use crate::LinkType;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub frames: u64,
    pub segments: u64,
    pub foreign: u64,
    pub other_ports: u64,
    /// Segments of other ports that start with a BGP message.
    pub other_bgp: u64,
    /// The lower port of the first of them.
    pub other_bgp_port: u16,
    pub unknown_links: u64,
    /// Link type of the first frame with an unknown one.
    pub unknown_link: LinkType,
    /// Frames that end before the TCP header, or were truncated there.
    pub truncated: u64,
    pub malformed: u64,
    /// Frames with more tunnels, tags or extension headers than the limits.
    pub deep: u64,
    pub mirrors_refused: u64,
    /// BGP segments with a wrong checksum of the IPv4 header.
    pub bad_headers: u64,
    /// Segments with a wrong TCP checksum (or truncated ones with a wrong checksum of the IPv4
    /// header).
    pub bad_checksums: u64,
    /// Segments whose checksum cannot be verified: offload, or truncation.
    pub unknown_checksums: u64,
    pub snapped: u64,
    pub fragments_pending: u64,
    pub fragments_joined: u64,
    /// Fragments that were discarded because of timeout or lack of memory.
    pub fragments_expired: u64,
    pub fragments_doubled: u64,
    pub fragments_overlapping: u64,
    /// Unusable fragments: truncated, damaged or of an invalid length.
    pub fragments_bad: u64,
}

impl Counters {
    /// Frames that were not read and may contain BGP, counted by kind. Other traffic is included
    /// only if the input has no BGP segments.
    pub fn unread(&self) -> Vec<String> {
        let mut unread = Vec::new();
        let mut add = |count: u64, noun: &str, which: &str| {
            if count > 0 {
                unread.push(format!("{} {which}", plural(count, noun)));
            }
        };
        let link = self.unknown_link.0;
        add(self.unknown_links, "packet", &format!("of unknown link type {link}"));
        add(self.truncated, "packet", "cut off before the TCP header");
        add(self.deep, "packet", "with too many headers");
        add(self.mirrors_refused, "segment", "of too many mirrors");
        let port = self.other_bgp_port;
        let object = if self.other_bgp == 1 { "it" } else { "them" };
        let which = format!("of port {port} (read {object} with --port {port})");
        add(self.other_bgp, "BGP segment", &which);
        if self.segments == 0 {
            let all = self.frames.saturating_sub(self.unknown_links + self.truncated);
            let fragments = self.fragments_pending + self.fragments_expired + self.fragments_bad;
            let kinds = [
                (self.other_ports, "TCP segment", " of other ports"),
                (self.foreign, "packet", " of other protocols"),
                (self.malformed, "malformed packet", ""),
                (fragments, "fragment", " of incomplete packets"),
            ];
            let kinds = kinds.into_iter().filter(|(count, ..)| *count > 0);
            let kinds: Vec<_> =
                kinds.map(|(count, noun, which)| plural(count, noun) + which).collect();
            add(all, "packet", &format!("without readable BGP ({})", kinds.join(", ")));
        }
        unread
    }
}

fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
