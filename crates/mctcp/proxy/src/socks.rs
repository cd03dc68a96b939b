//! SOCKS version 5 (RFC 1928) with user names and passwords (RFC 1929): parses requests and formats
//! replies, without sockets.
//!
//! | client | proxy | meaning |
//! |---|---|---|
//! | `05 n methods` | `05 method` | 0: none, 2: name and password, ff: rejected |
//! | `01 n name n password` | `01 status` | only after method 2 |
//! | `05 command 00 address port` | `05 reply 00 address port` | command 1: CONNECT |
//!
//! An address is `01` and 4 bytes, `03`, a length and a name, or `04` and 16 bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::target::{Host, Target};

/// Maximum length of a client's message in bytes.
pub const MAX_REQUEST_BYTES: usize = 3 + 2 * 255;
const VERSION: u8 = 5;
/// Version of the negotiation of RFC 1929.
const AUTHENTICATION: u8 = 1;
const CONNECT: u8 = 1;

/// The result of parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// More bytes are needed.
    Partial,
    /// A message and its length in bytes.
    Complete(T, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    None,
    Password,
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub name: Vec<u8>,
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", String::from_utf8_lossy(&self.name))
    }
}

/// Reply codes (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Succeeded,
    Failure,
    /// The rules do not allow the target.
    NotAllowed,
    /// No route to the network.
    NetworkUnreachable,
    /// The host does not respond, or its name cannot be resolved.
    HostUnreachable,
    /// The host rejected the connection.
    Refused,
    Expired,
    /// A command other than CONNECT.
    Command,
    AddressType,
}

impl Reply {
    const ALL: [Self; 9] = [
        Self::Succeeded,
        Self::Failure,
        Self::NotAllowed,
        Self::NetworkUnreachable,
        Self::HostUnreachable,
        Self::Refused,
        Self::Expired,
        Self::Command,
        Self::AddressType,
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    /// Description for users.
    pub fn description(self) -> &'static str {
        match self {
            Self::Succeeded => "connected",
            Self::Failure => "the server failed",
            Self::NotAllowed => "the server does not allow it",
            Self::NetworkUnreachable => "the server has no route to it",
            Self::HostUnreachable => "the server cannot reach or resolve it",
            Self::Refused => "it refuses connections",
            Self::Expired => "it does not answer",
            Self::Command => "the server does not support this command",
            Self::AddressType => "the server does not support this type of address",
        }
    }

    /// Reply for an error of connecting.
    pub fn of_error(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
            ErrorKind::HostUnreachable | ErrorKind::NotFound => Self::HostUnreachable,
            ErrorKind::TimedOut => Self::Expired,
            ErrorKind::PermissionDenied => Self::NotAllowed,
            _ => Self::Failure,
        }
    }

    /// The reply with this code.
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SocksError {
    /// Another protocol, or SOCKS 4.
    #[error("byte 0: version {0} is not 5 (SOCKS 5)")]
    Version(u8),
    /// Another subnegotiation version than that of RFC 1929.
    #[error("byte 0: version {0} of the user's authentication is not 1")]
    Authentication(u8),
    /// The client offers no accepted method.
    #[error("the client offers no accepted authentication method")]
    Methods,
    /// BIND or UDP ASSOCIATE.
    #[error("byte 1: command {0} is not CONNECT")]
    Command(u8),
    /// An unknown address type.
    #[error("byte 3: unknown type of address {0}")]
    AddressType(u8),
    /// An invalid host name, or port 0.
    #[error("bytes 4 to {end}: {cause}")]
    Target { end: usize, cause: super::target::TargetError },
}

impl SocksError {
    /// The reply to an invalid request.
    pub fn reply(&self) -> Reply {
        match self {
            Self::Command(_) => Reply::Command,
            Self::AddressType(_) => Reply::AddressType,
            _ => Reply::Failure,
        }
    }
}

/// The next `N` bytes, if they are complete.
fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Parses the first message, which must offer the method `wanted`.
///
/// # Errors
/// If it is another protocol, or `wanted` is not offered.
pub fn greeting(bytes: &[u8], wanted: Method) -> Result<Parsed<()>, SocksError> {
    match bytes.first() {
        None => return Ok(Parsed::Partial),
        Some(&VERSION) => {}
        Some(&other) => return Err(SocksError::Version(other)),
    }
    let Some(&count) = bytes.get(1) else { return Ok(Parsed::Partial) };
    let end = 2 + usize::from(count);
    let Some(methods) = bytes.get(2..end) else { return Ok(Parsed::Partial) };
    if methods.contains(&code(wanted)) {
        Ok(Parsed::Complete((), end))
    } else {
        Err(SocksError::Methods)
    }
}

fn code(method: Method) -> u8 {
    match method {
        Method::None => 0,
        Method::Password => 2,
    }
}

/// The reply to a greeting; `None`: rejected.
pub fn greeting_reply(method: Option<Method>) -> [u8; 2] {
    [VERSION, method.map_or(0xff, code)]
}

/// Parses a name and a password.
///
/// # Errors
/// If the subnegotiation version differs.
pub fn credentials(bytes: &[u8]) -> Result<Parsed<Credentials>, SocksError> {
    match bytes.first() {
        None => return Ok(Parsed::Partial),
        Some(&AUTHENTICATION) => {}
        Some(&other) => return Err(SocksError::Authentication(other)),
    }
    let field = |at: usize| {
        let end = at + 1 + usize::from(*bytes.get(at)?);
        Some((bytes.get(at + 1..end)?.to_vec(), end))
    };
    let Some((name, end)) = field(1) else { return Ok(Parsed::Partial) };
    let Some((password, end)) = field(end) else { return Ok(Parsed::Partial) };
    Ok(Parsed::Complete(Credentials { name, password }, end))
}

/// The reply to a name and a password.
pub fn credentials_reply(is_valid: bool) -> [u8; 2] {
    [AUTHENTICATION, u8::from(!is_valid)]
}

/// Parses a request.
///
/// # Errors
/// If it is not CONNECT, or the target is invalid.
pub fn request(bytes: &[u8]) -> Result<Parsed<Target>, SocksError> {
    match bytes.first() {
        None => return Ok(Parsed::Partial),
        Some(&VERSION) => {}
        Some(&other) => return Err(SocksError::Version(other)),
    }
    let Some([command, _reserved, kind]) = take::<3>(bytes, 1) else {
        return Ok(Parsed::Partial);
    };
    if command != CONNECT {
        return Err(SocksError::Command(command));
    }
    let (host, end) = match kind {
        1 => match take::<4>(bytes, 4) {
            Some(octets) => (Ok(Host::Address(Ipv4Addr::from(octets).into())), 8),
            None => return Ok(Parsed::Partial),
        },
        4 => match take::<16>(bytes, 4) {
            Some(octets) => {
                (Ok(Host::Address(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())), 20)
            }
            None => return Ok(Parsed::Partial),
        },
        3 => {
            let Some(&length) = bytes.get(4) else { return Ok(Parsed::Partial) };
            let end = 5 + usize::from(length);
            let Some(name) = bytes.get(5..end) else { return Ok(Parsed::Partial) };
            (Host::parse(&String::from_utf8_lossy(name)), end)
        }
        other => return Err(SocksError::AddressType(other)),
    };
    let Some(port) = take::<2>(bytes, end) else { return Ok(Parsed::Partial) };
    let end = end + 2;
    let invalid = |cause| SocksError::Target { end, cause };
    let (host, port) = (host.map_err(invalid)?, u16::from_be_bytes(port));
    if port == 0 {
        return Err(invalid(super::target::TargetError::Port("0".to_owned())));
    }
    Ok(Parsed::Complete(Target { host, port }, end))
}

/// The reply to a request. `at` is the local address of the connection to the target; `0.0.0.0:0`
/// if it is unknown.
pub fn request_reply(reply: Reply, at: Option<SocketAddr>) -> Vec<u8> {
    let at = at.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let mut bytes = vec![VERSION, reply.code(), 0];
    match at.ip() {
        IpAddr::V4(address) => {
            bytes.push(1);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.octets());
        }
    }
    bytes.extend_from_slice(&at.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> Result<Parsed<T>, SocksError>,
        expected: T,
    ) {
        // A truncated message requires more bytes; bytes after a message belong to the next one.
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Ok(Parsed::Partial), "{end}");
        }
        let more = [bytes, &[1, 2, 3]].concat();
        assert_eq!(parse(&more), Ok(Parsed::Complete(expected, bytes.len())));
        assert!(bytes.len() <= MAX_REQUEST_BYTES);
    }

    #[test]
    fn parses_greetings() {
        complete(&[5, 2, 1, 0], |bytes| greeting(bytes, Method::None), ());
        complete(&[5, 2, 0, 2], |bytes| greeting(bytes, Method::Password), ());
        assert_eq!(greeting(&[5, 1, 0], Method::Password), Err(SocksError::Methods));
        assert_eq!(greeting(&[5, 0], Method::None), Err(SocksError::Methods));
        assert_eq!(greeting(b"GET ", Method::None), Err(SocksError::Version(b'G')));
        assert_eq!(greeting(&[4], Method::None), Err(SocksError::Version(4)));
        assert_eq!(greeting_reply(Some(Method::Password)), [5, 2]);
        assert_eq!(greeting_reply(None), [5, 0xff]);
    }

    #[test]
    fn parses_credentials_up_to_255_bytes() {
        let of = |name: &[u8], password: &[u8]| {
            let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
            [&[1, length(name)], name, &[length(password)], password].concat()
        };
        for (name, password) in [(&b"ann"[..], &b"secret"[..]), (b"", b""), (&[7; 255], &[8; 255])]
        {
            let expected = Credentials { name: name.to_vec(), password: password.to_vec() };
            complete(&of(name, password), credentials, expected);
        }
        assert_eq!(credentials(&[5, 1]), Err(SocksError::Authentication(5)));
        let hidden = Credentials { name: b"ann".to_vec(), password: b"secret".to_vec() };
        assert!(!format!("{hidden:?}").contains("secret"));
    }

    #[test]
    fn parses_requests_of_all_address_types() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        complete(&[5, 1, 0, 1, 10, 2, 0, 2, 0, 80], request, target("10.2.0.2:80"));
        let mut six = vec![5, 1, 0, 4, 0x20, 1, 0xd, 0xb8];
        six.extend_from_slice(&[0; 11]);
        six.extend_from_slice(&[1, 1, 187]);
        complete(&six, request, target("[2001:db8::1]:443"));
        let name = [&[5, 1, 0, 3, 11][..], b"example.org", &[1, 187]].concat();
        complete(&name, request, target("example.org:443"));
    }

    #[test]
    fn reports_the_reply_to_invalid_requests() {
        let reply = |bytes: &[u8]| request(bytes).unwrap_err().reply();
        assert_eq!(reply(&[5, 2, 0, 1]), Reply::Command);
        assert_eq!(reply(&[5, 3, 0, 1]), Reply::Command);
        assert_eq!(reply(&[5, 1, 0, 2]), Reply::AddressType);
        assert_eq!(reply(&[5, 1, 0, 3, 1, b' ', 0, 80]), Reply::Failure);
        assert_eq!(reply(&[5, 1, 0, 3, 0, 0, 80]), Reply::Failure);
        assert_eq!(reply(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 0]), Reply::Failure);
        for code in 0..9 {
            assert_eq!(Reply::of(code).unwrap().code(), code);
        }
        assert_eq!(Reply::of(9), None);
    }

    #[test]
    fn replies_contain_the_local_address() {
        let none = request_reply(Reply::Refused, None);
        assert_eq!(none, [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
        let six = request_reply(Reply::Succeeded, Some("[::1]:258".parse().unwrap()));
        assert_eq!((six.len(), &six[..4], &six[20..]), (22, &[5, 0, 0, 4][..], &[1, 2][..]));
    }
}
