//! Paths from this host to a server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use mctcp::frame::Priority;
use sys::netlink::{LocalAddress, Socket, name_of};

use super::{Error, Result};
use mctcp_live::PathSpec;

/// A local address with its options: `192.0.2.1,backup,weight=3,dev=wwan0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathOption {
    pub address: IpAddr,
    /// Device for its packets; `None`: selected by routing.
    pub device: Option<String>,
    pub priority: Priority,
}

impl FromStr for PathOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let first = words.next().unwrap_or_default();
        let address = first.parse().map_err(|_| {
            format!("invalid IP address `{first}`; expected ADDR[,backup][,weight=N][,dev=NAME]")
        })?;
        let mut this = Self { address, device: None, priority: Priority::default() };
        for word in words {
            match word.split_once('=') {
                None if word == "backup" => this.priority.backup = true,
                Some(("weight", number)) => {
                    let weight = number.parse().ok().filter(|weight| *weight > 0);
                    this.priority.weight = weight
                        .ok_or_else(|| format!("invalid weight `{number}`; expected 1 to 255"))?;
                }
                // Device names have up to 15 bytes.
                Some(("dev", name)) if (1..16).contains(&name.len()) => {
                    this.device = Some(name.to_owned());
                }
                _ => {
                    return Err(format!("`{word}` is none of backup, weight=N, dev=NAME"));
                }
            }
        }
        Ok(this)
    }
}

impl fmt::Display for PathOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.priority.backup {
            f.write_str(",backup")?;
        }
        if self.priority.weight != 1 {
            write!(f, ",weight={}", self.priority.weight)?;
        }
        self.device.iter().try_for_each(|name| write!(f, ",dev={name}"))
    }
}

/// Paths to a server at these addresses: one for each configured local address or, without any, for
/// each local address with a route. The path that routing prefers comes first.
///
/// # Errors
/// If there is none, or the kernel's tables cannot be read.
pub(super) fn find(options: &[PathOption], servers: &[SocketAddr]) -> Result<Vec<PathSpec>> {
    let found = if options.is_empty() { routed(servers)? } else { named(options, servers)? };
    if found.is_empty() {
        let list = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Error::NoPath(list));
    }
    Ok(found)
}

/// Paths to add to an advertised address of the server: from the local addresses that have no path
/// yet, otherwise one.
pub(super) fn further(
    options: &[PathOption],
    server: SocketAddr,
    known: &[PathSpec],
) -> Vec<PathSpec> {
    if known.iter().any(|path| path.remote == server) {
        return Vec::new();
    }
    // Addresses without a route are skipped.
    let Ok(found) = find(options, &[server]) else { return Vec::new() };
    let is_used = |path: &PathSpec| known.iter().any(|it| it.local == path.local);
    let unused: Vec<_> = found.iter().filter(|path| !is_used(path)).cloned().collect();
    if unused.is_empty() { found.into_iter().take(1).collect() } else { unused }
}

/// Addresses of the server, the least used first, so that paths share as few links as possible.
struct ServerRotation<'a> {
    servers: &'a [SocketAddr],
    taken: Vec<usize>,
}

impl<'a> ServerRotation<'a> {
    fn new(servers: &'a [SocketAddr]) -> Self {
        Self { servers, taken: vec![0; servers.len()] }
    }

    /// Indices of the addresses with the same IP version.
    fn for_address(&self, address: IpAddr) -> Vec<usize> {
        let all = self.servers.iter().enumerate();
        let same = all.filter(|(_, server)| server.is_ipv4() == address.is_ipv4());
        let mut places: Vec<usize> = same.map(|(place, _)| place).collect();
        places.sort_by_key(|place| self.taken[*place]);
        places
    }

    fn take(&mut self, place: usize) -> SocketAddr {
        self.taken[place] += 1;
        self.servers[place]
    }
}

fn named(options: &[PathOption], servers: &[SocketAddr]) -> Result<Vec<PathSpec>> {
    let mut socket = Socket::open()?;
    let addresses = socket.addresses()?;
    let mut rotation = ServerRotation::new(servers);
    let mut found = Vec::new();
    for option in options {
        let places = rotation.for_address(option.address);
        let owner = addresses.iter().find(|it| it.address == option.address);
        let first = places.first().copied();
        let (mut routed, mut bound) = (None, None);
        for place in places {
            let Some(local) = owner else { break };
            match suitable(&mut socket, *local, servers[place].ip())? {
                Route::None => {}
                Route::Routed => {
                    routed = Some(place);
                    break;
                }
                // Without the device its packets would take the path of another address.
                Route::Bound(device) => bound = bound.or(Some((place, device))),
            }
        }
        let (place, device) = match (routed, bound, first) {
            (None, Some((place, device)), _) => (place, Some(device)),
            (Some(place), ..) | (None, None, Some(place)) => (place, None),
            (None, None, None) => continue,
        };
        let device = option.device.clone().or(device);
        found.push(PathSpec {
            remote: rotation.take(place),
            local: Some(option.address),
            device,
            priority: option.priority,
        });
    }
    Ok(found)
}

fn routed(servers: &[SocketAddr]) -> Result<Vec<PathSpec>> {
    // Loopback has one path, for all of its addresses.
    if let Some(server) = servers.iter().find(|it| it.ip().is_loopback()) {
        return Ok(vec![PathSpec::from(*server)]);
    }
    let mut socket = Socket::open()?;
    let mut usable = socket.addresses()?;
    usable.retain(|it| it.is_global && it.is_usable && !it.address.is_loopback());
    let mut rotation = ServerRotation::new(servers);
    let mut found: Vec<(bool, PathSpec)> = Vec::new();
    let mut devices = Vec::new();
    for local in usable {
        // Of several addresses of a device, the first one of each version is sufficient.
        let of = (local.device, local.address.is_ipv4());
        if devices.contains(&of) {
            continue;
        }
        for place in rotation.for_address(local.address) {
            let to = servers[place].ip();
            let device = match suitable(&mut socket, local, to)? {
                Route::None => continue,
                Route::Routed => None,
                Route::Bound(device) => Some(device),
            };
            let preferred = socket.look_up_route(to)?.is_some_and(|way| way.device == local.device);
            let (remote, priority) = (rotation.take(place), Priority::default());
            let path = PathSpec { remote, local: Some(local.address), device, priority };
            found.push((preferred, path));
            devices.push(of);
            break;
        }
    }
    // A local address is reachable without any of these devices.
    if found.is_empty()
        && let Some(server) = servers.first()
        && socket.look_up_route(server.ip())?.is_some()
    {
        return Ok(vec![PathSpec::from(*server)]);
    }
    found.sort_by_key(|(preferred, _)| !preferred);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Method by which packets leave through the device of their address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    /// No route through it.
    None,
    /// Selected by routing.
    Routed,
    /// Only if they are bound to the device.
    Bound(String),
}

fn suitable(socket: &mut Socket, local: LocalAddress, server: IpAddr) -> Result<Route> {
    let by_route = socket.way_from(local.address, server, None)?;
    if by_route.is_some_and(|way| way.device == local.device) {
        return Ok(Route::Routed);
    }
    match socket.way_from(local.address, server, Some(local.device))? {
        Some(_) => Ok(Route::Bound(name_of(local.device)?)),
        None => Ok(Route::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_path_options() {
        for text in ["192.0.2.1", "2001:db8::1,backup", "10.0.0.1,weight=3,dev=wwan0"] {
            assert_eq!(text.parse::<PathOption>().unwrap().to_string(), text);
        }
        for (text, part) in [
            ("eth0", "invalid IP address"),
            ("10.0.0.1,spare", "`spare` is none of"),
            ("10.0.0.1,weight=0", "1 to 255"),
            ("10.0.0.1,dev=", "none of"),
        ] {
            let error = text.parse::<PathOption>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn distributes_paths_over_server_addresses() {
        let servers: Vec<SocketAddr> =
            ["10.9.0.1:1", "10.9.0.2:1", "[2001:db8::9]:1"].map(|it| it.parse().unwrap()).into();
        let options: Vec<PathOption> =
            ["10.0.1.1", "10.0.2.1", "2001:db8::1"].map(|it| it.parse().unwrap()).into();
        let paths = find(&options, &servers).unwrap();
        let remotes: Vec<SocketAddr> = paths.iter().map(|path| path.remote).collect();
        assert_eq!(remotes, servers);
        let error = find(&options[2..], &servers[..2]).unwrap_err();
        assert!(error.to_string().contains("10.9.0.1:1, 10.9.0.2:1"), "{error}");
    }

    #[test]
    fn adds_paths_from_unused_local_addresses() {
        let options: Vec<PathOption> =
            ["10.0.1.1", "10.0.2.1"].map(|it| it.parse().unwrap()).into();
        let servers: Vec<SocketAddr> =
            ["10.9.0.1:1", "10.9.0.2:1"].map(|it| it.parse().unwrap()).into();
        let local = |paths: &[PathSpec]| -> Vec<IpAddr> {
            paths.iter().filter_map(|path| path.local).collect()
        };
        let known = find(&options[..1], &servers[..1]).unwrap();
        // Paths in use are not added again.
        assert_eq!(further(&options, servers[0], &known), []);
        let more = further(&options, servers[1], &known);
        assert_eq!((local(&more), more[0].remote), (vec![options[1].address], servers[1]));
        let known = find(&options, &servers[..1]).unwrap();
        let more = further(&options, servers[1], &known);
        assert_eq!(local(&more), [options[0].address]);
    }

    #[test]
    fn uses_one_path_on_loopback() {
        let server = "127.0.0.1:9".parse().unwrap();
        assert_eq!(find(&[], &[server]).unwrap(), [PathSpec::from(server)]);
    }
}
