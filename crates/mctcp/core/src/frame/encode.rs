//! Encodes frames to bytes.

use std::net::IpAddr;

use bytes::BufMut;

use super::{Copy, Frame, HEADER, Limits, MAX_RANGES, MAX_TARGET_BYTES, Priority, kind};
use crate::Payload;

impl<P: Payload> Frame<P> {
    /// Length of the frame on the wire in bytes, including the header.
    pub fn wire_length(&self) -> usize {
        HEADER + self.body_length()
    }

    fn body_length(&self) -> usize {
        match self {
            Self::Hello(hello) => {
                let token = if hello.limits.proof { hello.token.len() } else { 0 };
                32 + 8 + 4 + 1 + hello.target.len() + token
            }
            Self::HelloAck(_) => 32 + 8 + 8 + 16,
            Self::Join(_) => 4 + 4 + 2 + 16 + 16,
            Self::Challenge(_) | Self::Proof(_) => 32,
            Self::Data { payload, .. } => payload.len(),
            Self::Dack(dack) => 16 + 16 * dack.ranges.len().min(MAX_RANGES),
            Self::AddAddress { address, .. } => 4 + if address.is_ipv4() { 4 } else { 16 },
            Self::Priority(_) => 2,
            Self::Reset { text, .. } => shortened(text).len(),
            Self::Refuse(_)
            | Self::Ping(_)
            | Self::Pong(_)
            | Self::RemoveAddress(_)
            | Self::Close
            | Self::Wish(_)
            | Self::Fin { .. }
            | Self::Ignored => 0,
        }
    }

    /// Encodes the frame as number `path_seq` of its connection, without the payload of DATA, which
    /// must be written directly after it. Only the first [`MAX_RANGES`] of a DACK and the first
    /// [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES) bytes of a RESET's text are encoded.
    ///
    /// # Panics
    /// If the target of a HELLO is longer than [`MAX_TARGET_BYTES`], or a payload exceeds the
    /// maximum length of a frame.
    pub fn encode_header<B: BufMut>(&self, path_seq: u32, out: &mut B) {
        let (kind, flags, number) = self.head();
        let length = u16::try_from(self.body_length()).expect("frames are cut to 65,535 B");
        out.put_u8(kind);
        out.put_u8(flags);
        out.put_u16(length);
        out.put_u32(path_seq);
        out.put_u64(number);
        self.encode_body(out);
    }

    /// Type, flags and number.
    fn head(&self) -> (u8, u8, u64) {
        match self {
            Self::Hello(hello) => (kind::HELLO, 0, hello.credit),
            Self::HelloAck(ack) => (kind::HELLO_ACK, 0, ack.credit),
            Self::Join(join) => (kind::JOIN, 0, join.session),
            Self::Challenge(_) => (kind::CHALLENGE, 0, 0),
            Self::Proof(_) => (kind::PROOF, 0, 0),
            Self::Refuse(reason) => (kind::REFUSE, 0, u64::from(*reason as u32)),
            Self::Data { dsn, copy, .. } => {
                let flags = match copy {
                    Copy::First => 0,
                    Copy::Reinjected => kind::REINJECTED,
                    Copy::Redundant => kind::REDUNDANT,
                };
                (kind::DATA, flags, *dsn)
            }
            Self::Dack(dack) => (kind::DACK, 0, dack.next),
            Self::Ping(probe) => (kind::PING, 0, *probe),
            Self::Pong(probe) => (kind::PONG, 0, *probe),
            Self::AddAddress { .. } => (kind::ADD_ADDR, 0, 0),
            Self::RemoveAddress(id) => (kind::REMOVE_ADDR, 0, u64::from(*id)),
            Self::Priority(_) => (kind::PRIO, 0, 0),
            Self::Close => (kind::SF_CLOSE, 0, 0),
            Self::Wish(width) => (kind::WISH, 0, *width),
            Self::Fin { length } => (kind::FIN, 0, *length),
            Self::Reset { reason, .. } => (kind::RESET, 0, u64::from(*reason as u32)),
            Self::Ignored => (kind::IGNORED, 0, 0),
        }
    }

    fn encode_body<B: BufMut>(&self, out: &mut B) {
        match self {
            Self::Hello(hello) => {
                out.put_slice(&hello.nonce);
                put_limits(hello.limits, out);
                out.put_u32(hello.subflow.0);
                assert!(hello.target.len() <= MAX_TARGET_BYTES, "the target is too long");
                out.put_u8(hello.target.len() as u8);
                out.put_slice(hello.target.as_bytes());
                if hello.limits.proof {
                    out.put_slice(&hello.token);
                }
            }
            Self::HelloAck(ack) => {
                out.put_slice(&ack.nonce);
                put_limits(ack.limits, out);
                out.put_u64(ack.session);
                out.put_slice(&ack.proof);
            }
            Self::Join(join) => {
                out.put_u32(join.index);
                out.put_u32(join.subflow.0);
                put_priority(join.priority, out);
                out.put_slice(&join.nonce);
                out.put_slice(&join.token);
            }
            Self::Challenge(challenge) => {
                out.put_slice(&challenge.nonce);
                out.put_slice(&challenge.proof);
            }
            Self::Proof(proof) => out.put_slice(proof),
            Self::Dack(dack) => {
                out.put_u64(dack.credit);
                out.put_u32(dack.path_seq);
                out.put_u32(dack.delay_us);
                for range in dack.ranges.iter().take(MAX_RANGES) {
                    out.put_u64(range.start);
                    out.put_u64(range.end);
                }
            }
            Self::AddAddress { id, address } => {
                out.put_u8(*id);
                out.put_u8(if address.is_ipv4() { kind::IPV4 } else { kind::IPV6 });
                out.put_u16(address.port());
                match address.ip() {
                    IpAddr::V4(ip) => out.put_slice(&ip.octets()),
                    IpAddr::V6(ip) => out.put_slice(&ip.octets()),
                }
            }
            Self::Priority(priority) => put_priority(*priority, out),
            Self::Reset { text, .. } => out.put_slice(shortened(text).as_bytes()),
            Self::Data { .. }
            | Self::Refuse(_)
            | Self::Ping(_)
            | Self::Pong(_)
            | Self::RemoveAddress(_)
            | Self::Close
            | Self::Wish(_)
            | Self::Fin { .. }
            | Self::Ignored => {}
        }
    }
}

fn put_limits<B: BufMut>(limits: Limits, out: &mut B) {
    out.put_u8(limits.subflows);
    out.put_u16(limits.frame);
    out.put_u16(limits.idle);
    out.put_u16(limits.resume);
    out.put_u8(if limits.proof { kind::PROOF_FOLLOWS } else { 0 });
}

fn put_priority<B: BufMut>(priority: Priority, out: &mut B) {
    out.put_u8(if priority.backup { kind::BACKUP } else { 0 });
    out.put_u8(priority.weight);
}

/// The text truncated to the maximum length of a RESET, in whole characters.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(super::MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
