//! The keys of a bundle, derived from the pre-shared secret of both gateways.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::siphash::siphash;

/// Keys shared by the gateways of a bundle. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    digest: DigestKey,
    mac: MacKey,
    packets: [u8; 32],
}

/// The key of the digests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DigestKey([u64; 2]);

/// The key of the messages' HMAC.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MacKey(pub(crate) [u8; 32]);

/// The key of the encapsulated packets of one pair of incarnations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketKey(pub(crate) [u8; 16]);

impl Key {
    /// Derives the keys from the secret. For each purpose the secret keys an HMAC-SHA-256 over the
    /// name of the purpose, so no key reveals any other or the secret (the expansion of RFC 5869
    /// §2.3, with one block).
    pub fn from_secret(secret: &str) -> Self {
        Self {
            digest: DigestKey(words(derive(secret, "netarium bundle 1: digests"))),
            mac: MacKey(derive(secret, "netarium bundle 1: messages")),
            packets: derive(secret, "netarium bundle 2: packets from sendbox to receivebox"),
        }
    }

    /// The key of the digests.
    pub const fn digest(&self) -> DigestKey {
        self.digest
    }

    pub(crate) const fn mac(&self) -> MacKey {
        self.mac
    }

    /// The key of a bundle's packets between these incarnations.
    pub(crate) fn packets(&self, bundle: u32, sender: u64, receiver: u64) -> PacketKey {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.packets).expect("HMAC takes keys of any length");
        mac.update(&bundle.to_be_bytes());
        mac.update(&sender.to_be_bytes());
        mac.update(&receiver.to_be_bytes());
        let tag = mac.finalize().into_bytes();
        PacketKey(std::array::from_fn(|at| tag[at]))
    }
}

impl DigestKey {
    /// SipHash-1-3: all bits of the result look random without the key, so attackers cannot
    /// construct packets that all end epochs, and it is fast on short input.
    #[inline]
    pub(super) fn hash<const N: usize>(self, words: [u64; N]) -> u64 {
        siphash::<1, 3, N>(self.0, words)
    }
}

fn derive(secret: &str, purpose: &str) -> [u8; 32] {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(purpose.as_bytes());
    mac.finalize().into_bytes().into()
}

fn words(bytes: [u8; 32]) -> [u64; 2] {
    let word = |at: usize| {
        bytes[at..at + 8].iter().fold(0, |word: u64, byte| word << 8 | u64::from(*byte))
    };
    [word(0), word(8)]
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(..)")
    }
}

impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey(..)")
    }
}
