//! Keys, tokens and proofs.
//!
//! A session's key is derived from both nonces and the shared secret: a pre-shared key, or a secret
//! exported by TLS. Without either it protects only against attackers that cannot read the traffic,
//! like the keys of RFC 8684.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::frame::Hello;

/// The key of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey")
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

fn tag(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    hmac(key, parts).finalize().into_bytes().into()
}

/// A tag truncated to 16 bytes (RFC 2104 §5).
fn half(tag: [u8; 32]) -> [u8; 16] {
    std::array::from_fn(|at| tag[at])
}

/// The shared secret of both ends: the pre-shared key, then the secret that TLS exports for the
/// session's first connection (RFC 8446 §7.5). Each may be missing.
pub fn shared(psk: Option<&[u8]>, tls: Option<&[u8]>) -> Box<[u8]> {
    [psk.unwrap_or_default(), tls.unwrap_or_default()].concat().into()
}

/// The token of a HELLO: shows that the client has the pre-shared key and, with TLS, that it is the
/// other end of the TLS connection. The server checks it without state.
pub fn hello_token(secret: &[u8], nonce: &[u8; 32], subflow: u32, target: &str) -> [u8; 16] {
    half(hello_mac(secret, nonce, subflow, target).finalize().into_bytes().into())
}

/// Whether the token of a HELLO is valid. Runs in constant time.
pub fn is_hello_token(secret: &[u8], hello: &Hello) -> bool {
    let mac = hello_mac(secret, &hello.nonce, hello.subflow.0, &hello.target);
    mac.verify_truncated_left(&hello.token).is_ok()
}

fn hello_mac(secret: &[u8], nonce: &[u8; 32], subflow: u32, target: &str) -> Hmac<Sha256> {
    hmac(secret, &[b"mctcp hello", nonce, &subflow.to_be_bytes(), target.as_bytes()])
}

impl SessionKey {
    /// HKDF (RFC 5869) of the shared secret, which may be empty, salted with both nonces.
    pub fn derive(secret: &[u8], client: &[u8; 32], server: &[u8; 32]) -> Self {
        let mut salt = [0; 64];
        salt[..32].copy_from_slice(client);
        salt[32..].copy_from_slice(server);
        let extracted = tag(&salt, &[secret]);
        Self(tag(&extracted, &[b"mctcp session key", &[1]]))
    }

    /// The token of a join.
    pub fn token(&self, index: u32) -> [u8; 16] {
        half(tag(&self.0, &[b"join", &index.to_be_bytes()]))
    }

    /// Whether a join's token is valid. Runs in constant time.
    pub fn is_token(&self, index: u32, token: &[u8; 16]) -> bool {
        hmac(&self.0, &[b"join", &index.to_be_bytes()]).verify_truncated_left(token).is_ok()
    }

    /// The server's proof in answer to a join.
    pub fn server_proof(&self, client: &[u8; 16], server: &[u8; 16]) -> [u8; 16] {
        half(tag(&self.0, &[b"srv", client, server]))
    }

    /// Whether the server's proof is valid.
    pub fn is_server_proof(&self, client: &[u8; 16], server: &[u8; 16], proof: &[u8; 16]) -> bool {
        hmac(&self.0, &[b"srv", client, server]).verify_truncated_left(proof).is_ok()
    }

    /// The client's proof in answer to a challenge.
    pub fn client_proof(&self, client: &[u8; 16], server: &[u8; 16]) -> [u8; 32] {
        tag(&self.0, &[b"cli", client, server])
    }

    /// Whether the client's proof is valid.
    pub fn is_client_proof(&self, client: &[u8; 16], server: &[u8; 16], proof: &[u8; 32]) -> bool {
        hmac(&self.0, &[b"cli", client, server]).verify_slice(proof).is_ok()
    }

    /// The server's proof in answer to a HELLO.
    pub fn hello_ack_proof(&self) -> [u8; 16] {
        half(tag(&self.0, &[b"hello ack"]))
    }

    /// Whether the server's proof in answer to a HELLO is valid.
    pub fn is_hello_ack_proof(&self, proof: &[u8; 16]) -> bool {
        hmac(&self.0, &[b"hello ack"]).verify_truncated_left(proof).is_ok()
    }

    /// The client's proof after `HELLO_ACK` if a pre-shared key requires it.
    pub fn hello_proof(&self) -> [u8; 32] {
        tag(&self.0, &[b"hello"])
    }

    /// Whether the client's proof after `HELLO_ACK` is valid.
    pub fn is_hello_proof(&self, proof: &[u8; 32]) -> bool {
        hmac(&self.0, &[b"hello"]).verify_slice(proof).is_ok()
    }
}

/// Nonces generated from one seed: unpredictable if the seed is.
#[derive(Clone)]
pub struct Nonces {
    seed: [u8; 32],
    count: u64,
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nonces")
    }
}

impl Nonces {
    /// A generator with a seed of 32 secret bytes.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, count: 0 }
    }

    /// The next 32 bytes.
    pub fn next_nonce(&mut self) -> [u8; 32] {
        self.count += 1;
        tag(&self.seed, &[&self.count.to_be_bytes()])
    }

    /// The next 16 bytes.
    pub fn next_short_nonce(&mut self) -> [u8; 16] {
        half(self.next_nonce())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_proofs_only_with_their_key_and_nonces() {
        let key = SessionKey::derive(b"secret", &[1; 32], &[2; 32]);
        let other = SessionKey::derive(b"Secret", &[1; 32], &[2; 32]);
        assert_ne!(key, SessionKey::derive(b"secret", &[2; 32], &[1; 32]));
        assert!(key.is_token(7, &key.token(7)) && !key.is_token(8, &key.token(7)));
        assert!(!other.is_token(7, &key.token(7)));
        let (client, server) = ([3; 16], [4; 16]);
        let proof = key.server_proof(&client, &server);
        assert!(key.is_server_proof(&client, &server, &proof));
        assert!(!key.is_server_proof(&server, &client, &proof));
        let mut proof = key.client_proof(&client, &server);
        assert!(key.is_client_proof(&client, &server, &proof));
        proof[31] ^= 1;
        assert!(!key.is_client_proof(&client, &server, &proof));
        assert!(key.is_hello_ack_proof(&key.hello_ack_proof()));
        assert!(!other.is_hello_ack_proof(&key.hello_ack_proof()));
        assert!(
            key.is_hello_proof(&key.hello_proof()) && !other.is_hello_proof(&key.hello_proof())
        );
    }

    #[test]
    fn generates_different_nonces() {
        let mut nonces = Nonces::new([9; 32]);
        assert_ne!(nonces.next_nonce(), nonces.next_nonce());
        assert_ne!(nonces.next_short_nonce(), nonces.next_short_nonce());
    }
}
