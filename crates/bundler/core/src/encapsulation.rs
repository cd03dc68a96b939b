//! Encapsulated bundles: packets travel inside UDP datagrams between the sendbox and the
//! receivebox, encrypted and authenticated.
//!
//! The payload of a datagram is a header, one IP packet encrypted with AEGIS-128L
//! (draft-irtf-cfrg-aegis-aead), and the tag, which authenticates header and packet:
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 2 | magic, 0x4e42 |
//! | 2 | 1 | version, 2 |
//! | 3 | 1 | type, 4 |
//! | 4 | 4 | bundle |
//! | 8 | 8 | incarnation of the sendbox, not 0 |
//! | 16 | 8 | sequence number within the incarnation, from 1 |
//! | 24 | | encrypted packet |
//! | end | 16 | tag |
//!
//! The nonce is bytes 8 to 24. The key depends on the pre-shared key, the direction, the bundle and
//! the incarnations of *both* gateways: packets recorded during an earlier incarnation of either
//! gateway fail authentication. The sendbox therefore encapsulates only after the receivebox has
//! confirmed that it adopted the sendbox's incarnation (see [`crate::association`]); before,
//! packets leave without encapsulation. The receivebox forwards only packets of the adopted
//! incarnation, once each.
//!
//! The sequence number also replaces the digest of the packet's bytes.

#[cfg(test)]
mod tests;

use std::ops::Range;

use aegis::aegis128l::Aegis128L;

use crate::association::window::ReplayWindow;
use crate::digest::{self, DigestKey, Key, PacketKey, word};
use crate::message::{ENCAPSULATED, MAGIC, VERSION};
use crate::rejection::Rejection;

/// Bytes of the header.
pub const HEADER: usize = 24;
/// Bytes of the tag.
pub const TAG: usize = 16;
/// Bytes of the header that are authenticated as associated data; the others are the nonce.
const ASSOCIATED: usize = 8;
/// Words of the replay window: 8,192 packets, 100 ms of 1 Gbit/s.
const WINDOW: usize = 129;

/// Bytes that encapsulation adds to each packet, without the outer link-layer header: the
/// difference between the MTU of the path and the MTU inside the bundle.
pub const fn overhead(outer_is_v6: bool) -> u32 {
    let ip = if outer_is_v6 { 40 } else { 20 };
    ip + 8 + (HEADER + TAG) as u32
}

/// Bytes that both gateways add to the size of each packet of an encapsulated bundle, for both
/// outer protocols, so that their counters agree.
pub const ADDED_BYTES: u32 = overhead(false);

/// The header of an encapsulated packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identifier of the bundle.
    pub bundle: u32,
    /// The sendbox's incarnation.
    pub incarnation: u64,
    /// Number of the packet within the incarnation, from 1.
    pub sequence: u64,
}

/// Header and key for the encapsulation of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Header to write.
    pub header: Header,
    pub(crate) key: PacketKey,
}

/// An encapsulated packet that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Position of the decrypted packet in the payload.
    pub inner: Range<usize>,
    /// Digest of the packet.
    pub digest: u64,
}

/// The bundle in the header of a payload, not authenticated; `None` if the payload is not an
/// encapsulated packet of this version.
pub fn bundle_of(payload: &[u8]) -> Option<u32> {
    Header::parse(payload).ok().map(|header| header.bundle)
}

impl Envelope {
    /// An envelope for the receivebox incarnation `receiver`.
    pub fn new(header: Header, key: &Key, receiver: u64) -> Self {
        Self { header, key: key.packets(header.bundle, header.incarnation, receiver) }
    }

    /// Encapsulates the packet that follows [`HEADER`] unused bytes in `datagram`: writes the
    /// header, encrypts the packet and appends the tag.
    ///
    /// # Panics
    /// If `datagram` is shorter than [`HEADER`].
    pub fn seal(&self, datagram: &mut Vec<u8>) {
        let Header { bundle, incarnation, sequence } = self.header;
        let (header, packet) =
            datagram.split_first_chunk_mut::<HEADER>().expect("room for the header");
        header[..2].copy_from_slice(&MAGIC.to_be_bytes());
        header[2..4].copy_from_slice(&[VERSION, ENCAPSULATED]);
        header[4..8].copy_from_slice(&bundle.to_be_bytes());
        header[8..16].copy_from_slice(&incarnation.to_be_bytes());
        header[16..].copy_from_slice(&sequence.to_be_bytes());
        let tag = self.key.cipher(header).encrypt_in_place(packet, &header[..ASSOCIATED]);
        datagram.extend_from_slice(&tag);
    }
}

impl PacketKey {
    fn cipher(&self, header: &[u8; HEADER]) -> Aegis128L<TAG> {
        let mut nonce = [0; HEADER - ASSOCIATED];
        nonce.copy_from_slice(&header[ASSOCIATED..]);
        Aegis128L::new(&self.0, &nonce)
    }
}

impl Header {
    /// Reads the header of a payload without authentication.
    pub fn parse(payload: &[u8]) -> Result<Self, Rejection> {
        let Some(bytes) = payload.first_chunk::<HEADER>() else {
            return Err(Rejection::Truncated { field: "header", at: 0 });
        };
        let number = |at: usize| word(bytes, at);
        let magic = u16::from_be_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(Rejection::Foreign(magic));
        }
        if bytes[2] != VERSION {
            return Err(Rejection::UnknownVersion(bytes[2]));
        }
        if bytes[3] != ENCAPSULATED {
            return Err(Rejection::UnknownType(bytes[3]));
        }
        let (incarnation, sequence) = (number(8), number(16));
        if incarnation == 0 {
            return Err(Rejection::BadValue { field: "incarnation", at: 8, value: 0 });
        }
        if sequence == 0 {
            return Err(Rejection::BadValue { field: "sequence number", at: 16, value: 0 });
        }
        if payload.len() <= HEADER + TAG {
            return Err(Rejection::Truncated { field: "packet", at: HEADER });
        }
        Ok(Self { bundle: number(0) as u32, incarnation, sequence })
    }

    /// The packet's digest.
    pub fn digest(&self, key: &DigestKey) -> u64 {
        digest::of_sequence(key, self.incarnation, self.sequence)
    }
}

/// Authenticates, decrypts and filters the encapsulated packets of a bundle at the receivebox.
#[derive(Clone, Debug)]
pub struct Decapsulator {
    bundle: u32,
    key: Key,
    adopted: Option<Adopted>,
    window: ReplayWindow<WINDOW>,
}

/// The adopted incarnation of the sendbox.
#[derive(Clone, Copy, Debug)]
struct Adopted {
    sender: u64,
    key: PacketKey,
}

impl Decapsulator {
    /// A decapsulator for the bundle with this number and key.
    pub fn new(bundle: u32, key: &Key) -> Self {
        Self { bundle, key: key.clone(), adopted: None, window: ReplayWindow::default() }
    }

    /// Accepts from now on only packets of the sendbox incarnation `sender`. `receiver` is the
    /// incarnation of this receivebox.
    pub fn adopt(&mut self, sender: u64, receiver: u64) {
        if self.adopted.is_none_or(|adopted| adopted.sender != sender) {
            let key = self.key.packets(self.bundle, sender, receiver);
            self.adopted = Some(Adopted { sender, key });
            self.window = ReplayWindow::default();
        }
    }

    /// Authenticates and decrypts the payload of a datagram in place. Each packet is accepted once.
    pub fn open(&mut self, payload: &mut [u8]) -> Result<Opened, Rejection> {
        let header = Header::parse(payload)?;
        let key = self.check(&header)?;
        let inner = HEADER..payload.len() - TAG;
        let Some((bytes, rest)) = payload.split_first_chunk_mut::<HEADER>() else {
            return Err(Rejection::Truncated { field: "header", at: 0 });
        };
        let Some((packet, tag)) = rest.split_last_chunk_mut::<TAG>() else {
            return Err(Rejection::Truncated { field: "tag", at: HEADER });
        };
        let opened = key.cipher(bytes).decrypt_in_place(packet, tag, &bytes[..ASSOCIATED]);
        opened.map_err(|_| Rejection::BadTag)?;
        self.window.take(header.sequence)?;
        Ok(Opened { inner, digest: header.digest(&self.key.digest()) })
    }

    /// Accepts a packet that has an envelope but no bytes, as on the virtual clock.
    /// Returns its digest.
    pub fn open_unencoded(&mut self, envelope: &Envelope) -> Result<u64, Rejection> {
        if self.check(&envelope.header)? != envelope.key {
            return Err(Rejection::BadTag);
        }
        self.window.take(envelope.header.sequence)?;
        Ok(envelope.header.digest(&self.key.digest()))
    }

    /// Performs the checks that require no decryption; returns the key for decryption.
    fn check(&self, header: &Header) -> Result<PacketKey, Rejection> {
        if header.bundle != self.bundle {
            return Err(Rejection::UnknownBundle(header.bundle));
        }
        let adopted = self.adopted.filter(|adopted| adopted.sender == header.incarnation);
        let adopted = adopted.ok_or(Rejection::NotAdopted)?;
        self.window.check(header.sequence)?;
        Ok(adopted.key)
    }
}
