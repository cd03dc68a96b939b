//! Bytes on the wire: what the data path must read from a packet and write into it.
//!
//! Everything works on byte slices that begin with an IPv4 or IPv6 header; nothing panics on
//! foreign bytes, nothing allocates but the builders of whole packets.
#![forbid(unsafe_code)]

pub mod checksum;
mod fragment;
mod header;
pub mod icmp;
mod super_packet;
#[cfg(test)]
mod tests;
mod udp;
mod virtio;

pub use fragment::fragment;
pub use header::{Address, Header, Protocol};
pub use super_packet::{Change, HEADER_MAX, Piece, SuperPacket, finish_checksum, flip_bit};
pub use udp::{UDP_HEADER, datagram};
pub use virtio::{Offload, VIRTIO_HEADER};
