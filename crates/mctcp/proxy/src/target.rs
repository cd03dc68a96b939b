//! Targets of connections.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Maximum length of a host name. Names have up to 253 bytes (RFC 1035 §2.3.4), but with a port a
/// HELLO has room for only 249.
const MAX_NAME_BYTES: usize = mctcp::frame::MAX_TARGET_BYTES - ":65535".len();

/// A host: an address, or a name that the server resolves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Address(IpAddr),
    /// A name, in lower case.
    Name(String),
}

/// A host and a port: `example.org:443`, `10.2.0.2:22`, `[2001:db8::1]:443`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub host: Host,
    /// The port, not 0.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    #[error("`{0}` has no port: write HOST:PORT, such as example.org:443")]
    NoPort(String),
    /// The port is not a number from 1 to 65535.
    #[error("invalid port `{0}`; expected 1 to 65535")]
    Port(String),
    /// The host is neither an address nor a name.
    #[error("`{0}` is neither an address nor the name of a host")]
    Host(String),
}

impl Target {
    pub fn of(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip().to_canonical()), port: address.port() }
    }
}

impl Host {
    /// Parses an address or a name.
    ///
    /// # Errors
    /// If it is empty, too long, or has characters that are invalid in host names.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        // Underscores are not standard, but common.
        let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.chars().all(is_known)
                && !label.starts_with('-')
        };
        // A text of only digits and dots is an invalid address, not a name.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.chars().all(|c| c.is_ascii_digit());
        if name.len() > MAX_NAME_BYTES || is_number || !name.split('.').all(is_label) {
            return Err(TargetError::Host(truncated(text)));
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(TargetError::NoPort(truncated(text)));
        };
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => match inner.parse::<Ipv6Addr>() {
                Ok(address) => Host::Address(IpAddr::V6(address).to_canonical()),
                Err(_) => return Err(TargetError::Host(truncated(host))),
            },
            // An IPv6 address without brackets, whose last group is not a port.
            None if host.contains(':') => return Err(TargetError::NoPort(truncated(text))),
            None => Host::parse(host)?,
        };
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse::<u16>() {
            Ok(port) if is_number && port != 0 => Ok(Self { host, port }),
            _ => Err(TargetError::Port(truncated(port))),
        }
    }
}

/// The text truncated for a message, because it may come from an untrusted source.
fn truncated(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(64).map(clean).collect()
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_targets() {
        for (text, shown) in [
            ("example.org:443", "example.org:443"),
            ("Example.ORG.:443", "example.org:443"),
            ("10.2.0.2:22", "10.2.0.2:22"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("[::ffff:10.2.0.2]:80", "10.2.0.2:80"),
            ("my_host:1", "my_host:1"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(shown.parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn rejects_invalid_targets_with_the_invalid_part() {
        let error = |text: &str| text.parse::<Target>().unwrap_err();
        assert_eq!(error("example.org"), TargetError::NoPort("example.org".to_owned()));
        assert_eq!(error("2001:db8::1"), TargetError::NoPort("2001:db8::1".to_owned()));
        for port in ["0", "65536", "", "+80", "http"] {
            assert_eq!(error(&format!("a:{port}")), TargetError::Port(port.to_owned()));
        }
        for host in ["", "a b", "a..b", "-a", "1.2.3", "256.1.1.1", "a\nb", "ü", "[10.0.0.1]"] {
            assert!(matches!(error(&format!("{host}:80")), TargetError::Host(_)), "{host}");
        }
        let long = "a.".repeat(200) + "a:80";
        assert!(matches!(error(&long), TargetError::Host(text) if text.len() == 64));
    }
}
