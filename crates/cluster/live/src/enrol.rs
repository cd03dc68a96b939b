//! Enrolment: a new agent or coordinator gets its certificate over the network.
//!
//! The host of the authority listens with a TLS certificate that is created for one invitation. The
//! invitation contains the fingerprint of that certificate, with which the new host authenticates
//! the authority, and a one-time secret, with which the authority authenticates the new host. The
//! private key stays on the host that creates it: the authority receives a certificate request
//! (PKCS #10).

mod client;
mod server;

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::shard::{from_hex, hex};
pub use client::enrol;
pub use server::{Host, Invite};

/// Default port of enrolments.
pub const PORT: u16 = 7448;
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Timeout of one read or write.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of a SHA-256 hash in an invitation: finding another certificate with the same part
/// takes 2^128 attempts.
type Fingerprint = [u8; 16];
/// The one-time secret of the invitation.
type Secret = [u8; 16];

fn fingerprint(certificate: &[u8]) -> Fingerprint {
    let hash = Sha256::digest(certificate);
    hash.first_chunk().copied().unwrap_or_default()
}

/// The address of the authority and both secrets: `HOST:PORT/` and 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Address of the authority: `host:port`.
    pub host: String,
    fingerprint: Fingerprint,
    secret: Secret,
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}", self.host, hex(&self.fingerprint), hex(&self.secret))
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invitation").field("host", &self.host).finish_non_exhaustive()
    }
}

impl FromStr for Invitation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write an invitation as `netarium cluster invite` prints it: HOST:PORT/CODE";
        let (host, code) = text.trim().rsplit_once('/').ok_or_else(wrong)?;
        let fingerprint = code.get(..32).and_then(from_hex).ok_or_else(wrong)?;
        let secret = code.get(32..).and_then(from_hex).ok_or_else(wrong)?;
        let host = crate::address::with_port(host, PORT).map_err(|e| e.to_string())?;
        Ok(Self { host, fingerprint, secret })
    }
}

/// The request of a new host.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    secret: Secret,
    name: String,
    /// The certificate request (PKCS #10) in PEM.
    csr: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Response {
    Signed { ca: String, cert: String, crl: Option<String> },
    Refused { why: String },
}

/// Writes a message with its length.
fn send(stream: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let bytes = crate::session::bytes(message);
    let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&bytes)?;
    stream.flush()
}

fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> std::io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    let invalid = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    if length > MAX_MESSAGE_BYTES {
        return Err(invalid("the message is too long"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    crate::session::read(&bytes).ok_or_else(|| invalid("the message is not understood"))
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};
    use std::time::Instant;

    use rustix::net::{AddressFamily, SocketType};

    use super::*;
    use crate::authority::Authority;
    use crate::credentials::{Credentials, Role};

    fn invite(lifetime: Duration) -> Invite {
        let host = Host { listen: "127.0.0.1:0".to_owned(), public: None };
        let authority = Authority::generate(1).unwrap();
        Invite::open(authority, &host, Role::Agent, Some("m1".to_owned()), 1, lifetime).unwrap()
    }

    fn refusal(invitation: &Invitation) -> String {
        let dir = tempfile::tempdir().unwrap();
        let error = enrol(invitation, "m1", &dir.path().join("new")).unwrap_err().to_string();
        assert!(!dir.path().join("new").exists(), "nothing is stored: {error}");
        error
    }

    #[test]
    fn invitation_survives_its_text() {
        let invite = invite(Duration::from_secs(60));
        let text = invite.invitation().to_string();
        assert_eq!(text.parse::<Invitation>().unwrap(), *invite.invitation());
        assert!(!format!("{:?}", invite.invitation()).contains(&text[text.len() - 16..]));
        let short = &text[..text.len() - 1];
        for wrong in ["", "host", "host/", short, &format!("a b{}", &text[text.len() - 65..])] {
            assert!(wrong.parse::<Invitation>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn enrols_with_a_valid_invitation_and_once_only() {
        let invite = invite(Duration::from_secs(60));
        let invitation = invite.invitation().clone();
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("credentials");
        let (enrolled, again) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| invite.serve_until(|_| false));
            let enrolled = enrol(&invitation, "other", &dir).unwrap();
            let again = refusal(&invitation);
            invite.stop();
            assert_eq!(serving.join().unwrap().unwrap(), ["m1"], "the authority chose the name");
            (enrolled, again)
        });
        assert_eq!(Credentials::load(&dir, Role::Agent).unwrap().cert, enrolled.cert);
        assert!(again.contains("used"), "{again}");
    }

    #[test]
    fn refuses_wrong_and_expired_codes() {
        let valid = invite(Duration::from_secs(60));
        let mut wrong = valid.invitation().clone();
        wrong.secret[3] ^= 1;
        let mut impostor = valid.invitation().clone();
        impostor.fingerprint[3] ^= 1;
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| valid.serve_until(|_| false));
            let why = refusal(&wrong);
            assert!(why.contains("the code is wrong"), "{why}");
            let why = refusal(&impostor);
            assert!(why.contains("does not match the invitation"), "{why}");
            valid.stop();
            assert!(serving.join().unwrap().unwrap().is_empty());
        });
        let expired = invite(Duration::ZERO);
        let why = expired.answer(
            &Request { secret: expired.invitation().secret, name: "m1".into(), csr: String::new() },
            Instant::now() + Duration::from_millis(1),
        );
        assert!(matches!(why, Response::Refused { why } if why.contains("expired")));
    }

    /// Enrols while 400 connections are open that have sent `first`.
    fn enrols_beside_others(first: &[u8], source: fn(u16) -> [u8; 4]) {
        let invite = invite(Duration::from_secs(60));
        let host: SocketAddr = invite.invitation().host.parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let connect = |number| {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
            let socket = socket.unwrap();
            rustix::net::bind(&socket, &SocketAddr::from((source(number), 0))).unwrap();
            rustix::net::connect(&socket, &host).unwrap();
            let mut stream = TcpStream::from(socket);
            // It may be closed already.
            let _ = stream.write_all(first);
            stream
        };
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| invite.serve_until(|names| !names.is_empty()));
            let _open: Vec<TcpStream> = (0..400).map(connect).collect();
            enrol(invite.invitation(), "m1", &dir.path().join("c")).unwrap();
            assert_eq!(serving.join().unwrap().unwrap(), ["m1"]);
        });
    }

    #[test]
    fn idle_connections_do_not_block_an_enrolment() {
        enrols_beside_others(b"", |_| [127, 0, 0, 1]);
    }

    #[test]
    fn garbage_and_unfinished_handshakes_do_not_block_an_enrolment() {
        enrols_beside_others(b"GET / HTTP/1.1\r\n\r\n", |_| [127, 3, 0, 1]);
        // The start of a TLS record.
        enrols_beside_others(&[22, 3, 1, 2, 0, 1], |_| [127, 3, 0, 2]);
    }

    #[test]
    fn idle_connections_of_many_sources_do_not_block_an_enrolment() {
        enrols_beside_others(b"", |number| {
            let [high, low] = number.to_be_bytes();
            [127, 4, high, low]
        });
    }
}
