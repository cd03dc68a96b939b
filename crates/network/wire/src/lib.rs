//! Encoding and decoding of packets for the data path.
//!
//! All functions work on byte slices that begin with an IPv4 or IPv6 header; none panics on invalid
//! bytes, and only the builders of whole packets allocate.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

pub mod checksum;
mod fragment;
mod header;
pub mod icmp;
mod ip;
mod super_packet;
#[cfg(test)]
mod tests;
mod udp;
mod virtio;

pub use fragment::fragment;
pub use header::{Address, Header, Protocol};
pub use ip::{IpFields, ip_header, pseudo_header_of};
pub use super_packet::{Change, HEADER_MAX, SegmentRange, SuperPacket, finish_checksum, flip_bit};
pub use udp::{UDP_HEADER, datagram, udp_header};
pub use virtio::{Offload, VIRTIO_HEADER};
