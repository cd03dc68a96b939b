//! Access rules of proxies and servers: allowed targets and users.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use ipnet::IpNet;

use super::socks::Credentials;
use super::target::{Host, Target};
use super::{Error, Result, tls};

/// A set of targets: `10.2.0.0/16`, `10.2.0.2:22`, `[2001:db8::/32]:8000-8099`,
/// `example.org:443`, `*.example.org`, `any:443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    /// First and last port.
    ports: (u16, u16),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    Network(IpNet),
    Name(String),
    /// Names that end with a dot and this name.
    Below(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid rule `{0}`; expected HOST, CIDR or `any`, with or without `:PORT` or `:FIRST-LAST`"
)]
pub struct RuleError(pub String);

impl Rule {
    fn has_port(&self, port: u16) -> bool {
        (self.ports.0..=self.ports.1).contains(&port)
    }

    fn has_name(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Network(_) => false,
            Hosts::Name(own) => own == name,
            Hosts::Below(parent) => {
                name.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        match &self.hosts {
            Hosts::Any => true,
            Hosts::Network(network) => network.contains(&address.to_canonical()),
            Hosts::Name(_) | Hosts::Below(_) => false,
        }
    }

    /// Addresses and ports of the rule, if it is not a rule for a name.
    pub(super) fn addresses(&self) -> Option<(IpNet, (u16, u16))> {
        match self.hosts {
            Hosts::Network(network) => Some((network, self.ports)),
            Hosts::Any | Hosts::Name(_) | Hosts::Below(_) => None,
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let invalid = || RuleError(text.to_owned());
        let (hosts, ports) = match text.strip_prefix('[') {
            Some(inner) => {
                let (hosts, ports) = inner.split_once(']').ok_or_else(invalid)?;
                if !ports.is_empty() && !ports.starts_with(':') {
                    return Err(invalid());
                }
                (hosts, ports.strip_prefix(':'))
            }
            None => match text.split_once(':') {
                // An IPv6 address.
                Some((_, rest)) if rest.contains(':') => (text, None),
                Some((hosts, ports)) => (hosts, Some(ports)),
                None => (text, None),
            },
        };
        let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
        let ports = match ports {
            None => (1, u16::MAX),
            Some(ports) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                (number(first).ok_or_else(invalid)?, number(last).ok_or_else(invalid)?)
            }
        };
        let hosts = if hosts == "any" {
            Hosts::Any
        } else if let Ok(network) = hosts.parse::<IpNet>() {
            Hosts::Network(network.trunc())
        } else if let Some(parent) = hosts.strip_prefix("*.") {
            match Host::parse(parent) {
                Ok(Host::Name(name)) => Hosts::Below(name),
                _ => return Err(invalid()),
            }
        } else {
            match Host::parse(hosts).map_err(|_| invalid())? {
                Host::Address(address) => Hosts::Network(address.into()),
                // `any.` and `ANY` as hosts would be written as `any`, which is all hosts.
                Host::Name(name) if name == "any" => return Err(invalid()),
                Host::Name(name) => Hosts::Name(name),
            }
        };
        if ports.0 > ports.1 { Err(invalid()) } else { Ok(Self { hosts, ports }) }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("any")?,
            Hosts::Network(network @ IpNet::V4(_)) => write!(f, "{network}")?,
            Hosts::Network(network @ IpNet::V6(_)) => write!(f, "[{network}]")?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
        }
        match self.ports {
            (1, u16::MAX) => Ok(()),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

/// Targets to which a server connects its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// A target must match one of these. Empty: none is allowed.
    pub allow: Vec<Rule>,
}

impl Policy {
    pub fn everything() -> Self {
        Self { allow: vec![Rule { hosts: Hosts::Any, ports: (1, u16::MAX) }] }
    }

    /// Whether to resolve the target's name: whether one of its addresses may be allowed.
    pub fn may_permit(&self, target: &Target) -> bool {
        match &target.host {
            Host::Address(address) => self.permits(target, *address),
            Host::Name(name) => self.allow.iter().any(|rule| {
                rule.has_port(target.port)
                    && (rule.has_name(name) || matches!(rule.hosts, Hosts::Network(_)))
            }),
        }
    }

    /// Whether a target may be reached at this address, to which its name resolves.
    pub fn permits(&self, target: &Target, address: IpAddr) -> bool {
        self.allow.iter().any(|rule| {
            rule.has_port(target.port)
                && (rule.has_address(address)
                    || matches!(&target.host, Host::Name(name) if rule.has_name(name)))
        })
    }
}

/// Names and passwords of a proxy's users.
#[derive(Clone, Default)]
pub struct Users(Vec<Credentials>);

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.0.len())
    }
}

impl Users {
    /// Reads a file of lines `NAME:PASSWORD`. Empty lines and lines that start with
    /// `#` are ignored.
    ///
    /// # Errors
    /// If it cannot be read, a line has no colon, or there are no users.
    pub fn load(path: &Path) -> Result<Self> {
        let failed = |cause| Error::file("read", path, cause);
        let text = String::from_utf8(tls::read(path).map_err(failed)?)
            .map_err(|_| failed(std::io::Error::other("it is not UTF-8 text")))?;
        let mut users = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let invalid = |why| Error::Users { path: path.to_owned(), line: number + 1, why };
            let (name, password) =
                line.split_once(':').ok_or_else(|| invalid("write NAME:PASSWORD"))?;
            if name.is_empty() || name.len() > 255 || password.len() > 255 {
                return Err(invalid("names and passwords have 1 to 255 bytes"));
            }
            let (name, password) = (name.as_bytes().to_vec(), password.as_bytes().to_vec());
            users.push(Credentials { name, password });
        }
        if users.is_empty() {
            return Err(Error::Users {
                path: path.to_owned(),
                line: 1,
                why: "the file has no users",
            });
        }
        Ok(Self(users))
    }

    /// Whether name and password are valid, in a time that depends only on their lengths.
    pub fn contain(&self, given: &Credentials) -> bool {
        let mut known = 0;
        for user in &self.0 {
            known |= is_equal(&user.name, &given.name) & is_equal(&user.password, &given.password);
        }
        known == 1
    }
}

/// 1 if two texts are equal, otherwise 0. Runs in constant time for equal lengths.
fn is_equal(left: &[u8], right: &[u8]) -> u8 {
    if left.len() != right.len() {
        return 0;
    }
    let differ = left.iter().zip(right).fold(0, |differ, (a, b)| differ | (a ^ b));
    u8::from(std::hint::black_box(differ) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(rules: &[&str], target: &str, address: Option<&str>) -> bool {
        let allow = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let (policy, target): (_, Target) = (Policy { allow }, target.parse().unwrap());
        let address = match (&target.host, address) {
            (_, Some(address)) => address.parse().unwrap(),
            (Host::Address(address), None) => *address,
            (Host::Name(_), None) => return policy.may_permit(&target),
        };
        let is_permitted = policy.permits(&target, address);
        assert!(!is_permitted || policy.may_permit(&target));
        is_permitted
    }

    #[test]
    fn permits_addresses_and_ports_of_rules() {
        assert!(permits(&["10.2.0.0/16"], "10.2.3.4:80", None));
        assert!(permits(&["10.2.0.0/16"], "[::ffff:10.2.3.4]:80", None));
        assert!(!permits(&["10.2.0.0/16"], "10.3.3.4:80", None));
        assert!(permits(&["10.2.0.2:22"], "10.2.0.2:22", None));
        assert!(!permits(&["10.2.0.2:22"], "10.2.0.2:23", None));
        assert!(permits(&["10.9.9.9", "any:8000-8099"], "10.2.0.2:8042", None));
        assert!(permits(&["[2001:db8::/32]:443"], "[2001:db8::1]:443", None));
        assert!(permits(&["2001:db8::/32"], "[2001:db8::1]:443", None));
        assert!(!permits(&[], "10.2.0.2:22", None));
        assert!(!permits(&["10.2.0.2"], "[::1]:22", None));
    }

    #[test]
    fn permits_names_by_name_or_address() {
        assert!(permits(&["Example.org:443"], "example.org:443", Some("127.0.0.1")));
        assert!(!permits(&["example.org:443"], "other.org:443", None));
        assert!(permits(&["*.example.org"], "www.example.org:80", Some("10.0.0.1")));
        assert!(!permits(&["*.example.org"], "example.org:80", None));
        assert!(!permits(&["*.example.org"], "notexample.org:80", None));
        // The address of a name decides, not the name.
        assert!(permits(&["10.2.0.0/16"], "example.org:80", None));
        assert!(permits(&["10.2.0.0/16"], "example.org:80", Some("10.2.0.1")));
        assert!(!permits(&["10.2.0.0/16"], "example.org:80", Some("127.0.0.1")));
        // A rule for a name does not permit an address with that text.
        assert!(!permits(&["example.org"], "127.0.0.1:80", None));
    }

    #[test]
    fn parses_and_formats_rules() {
        for text in ["any", "10.2.0.0/16:80", "[2001:db8::/32]:1-9", "*.example.org", "a.b:443"] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        for text in [
            "",
            "a b",
            "10.2.0.0/33",
            "any:0",
            "any:9-1",
            "[::1",
            "[::1]80",
            "any:",
            "*.10.2.0.1",
            "*.",
            // They would be written as `any`, which allows all hosts.
            "any.",
            "ANY",
            "any.:443",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }

    #[test]
    fn accepts_users_by_name_and_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        std::fs::write(&path, "# ours\n\nann:se:cret\nbob:\n").unwrap();
        let users = Users::load(&path).unwrap();
        let contain = |name: &str, password: &str| {
            let (name, password) = (name.as_bytes().to_vec(), password.as_bytes().to_vec());
            users.contain(&Credentials { name, password })
        };
        assert!(contain("ann", "se:cret") && contain("bob", ""));
        assert!(
            !contain("ann", "")
                && !contain("bob", "se:cret")
                && !contain("", "")
                && !contain("#", "x")
        );
        for (text, line) in [("ann\n", ":1:"), ("a:b\n:c\n", ":2:"), ("# x\n", "no users")] {
            std::fs::write(&path, text).unwrap();
            let error = Users::load(&path).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
    }
}
