//! Seals and opens datagrams with AEGIS-128L (draft-irtf-cfrg-aegis-aead). HKDF (RFC 5869)
//! derives the keys.

use aegis::aegis128l::{Aegis128L, Key as Bytes};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

use super::format::{CLEAR, TAG};
use crate::AgentId;

/// Separates the keys of this format version from those of others.
const LABEL: &[u8] = b"netarium trunk 3";

/// The key for datagrams from one agent to another.
pub(super) struct Key {
    key: Bytes,
    encrypt: bool,
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        size_of::<Bytes>()
    }
}

impl Key {
    /// Derives the key from the lab's key. `encrypt` is part of the derivation, so that a datagram
    /// of one mode is not valid in the other.
    pub(super) fn new(lab: &[u8; 32], from: AgentId, to: AgentId, encrypt: bool) -> Self {
        let info = [&from.0.to_be_bytes()[..], &to.0.to_be_bytes(), &[u8::from(encrypt)]];
        let lab = Salt::new(HKDF_SHA256, LABEL).extract(lab);
        let mut key = Bytes::default();
        let expanded = lab.expand(&info, Length).and_then(|expanded| expanded.fill(&mut key));
        expanded.expect("a key's length is less than 255 hashes");
        Self { key, encrypt }
    }

    /// Seals a datagram. Its beginning is the nonce, and its end is reserved for the tag.
    pub(super) fn seal(&self, datagram: &mut [u8]) {
        let Some((nonce, rest)) = datagram.split_first_chunk_mut::<CLEAR>() else { return };
        let Some((content, place)) = rest.split_last_chunk_mut::<TAG>() else { return };
        let cipher = Aegis128L::<TAG>::new(&self.key, nonce);
        *place = if self.encrypt {
            cipher.encrypt_in_place(content, &[])
        } else {
            cipher.encrypt_in_place(&mut [], content)
        };
    }

    /// Opens a datagram in place and returns its content; `None` if this key did not seal it.
    pub(super) fn open<'a>(&self, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        let (nonce, rest) = datagram.split_first_chunk_mut::<CLEAR>()?;
        let (content, tag) = rest.split_last_chunk_mut::<TAG>()?;
        let cipher = Aegis128L::<TAG>::new(&self.key, nonce);
        let opened = if self.encrypt {
            cipher.decrypt_in_place(content, tag, &[])
        } else {
            cipher.decrypt_in_place(&mut [], tag, content)
        };
        opened.ok().map(|()| &*content)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lab: u8, from: u16, to: u16, encrypt: bool) -> Key {
        Key::new(&[lab; 32], AgentId(from), AgentId(to), encrypt)
    }

    fn sealed(encrypt: bool) -> Vec<u8> {
        let mut datagram: Vec<u8> = (0..100).collect();
        datagram.extend([0; TAG]);
        key(3, 1, 2, encrypt).seal(&mut datagram);
        datagram
    }

    #[test]
    fn opens_sealed_datagram() {
        let content: Vec<u8> = (16..100).collect();
        for encrypt in [true, false] {
            let mut datagram = sealed(encrypt);
            assert_eq!(datagram[CLEAR..100] == content, !encrypt);
            assert_eq!(key(3, 1, 2, encrypt).open(&mut datagram), Some(&content[..]));
        }
    }

    #[test]
    fn rejects_wrong_key_changed_bits_and_truncation() {
        for (lab, from, to, encrypt) in
            [(4, 1, 2, true), (3, 2, 1, true), (3, 1, 3, true), (3, 3, 2, true), (3, 1, 2, false)]
        {
            assert_eq!(key(lab, from, to, encrypt).open(&mut sealed(true)), None);
        }
        for encrypt in [true, false] {
            let key = key(3, 1, 2, encrypt);
            for bit in 0..(100 + TAG) * 8 {
                let mut datagram = sealed(encrypt);
                datagram[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.open(&mut datagram), None, "bit {bit}");
            }
            for length in 0..100 + TAG {
                assert_eq!(key.open(&mut sealed(encrypt)[..length]), None);
            }
        }
    }
}
