//! What the machine can hold, as the kernel says and the operator allows.

use std::net::IpAddr;
use std::path::Path;

use base::{Bandwidth, Bytes};
use cluster::control::Offer;
use cluster::trunk::datagram_size;
use sys::netlink::Socket;

/// What the operator allows, where it is less than what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allowed {
    /// Processors.
    pub cores: Option<f64>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Rate of the trunk's interface, where the kernel does not know or is wrong.
    pub nic: Option<Bandwidth>,
    /// Emulated traffic.
    pub traffic: Option<Bandwidth>,
    /// Hosts.
    pub hosts: Option<u32>,
}

/// Most hosts where the operator says nothing: one namespace each, of which a kernel has many.
const HOSTS: u32 = 4000;

/// What there is.
pub(super) fn offer(allowed: &Allowed, trunk: IpAddr) -> Offer {
    let cores = allowed.cores.unwrap_or_else(|| sys::sched::cpus() as f64);
    let memory = allowed.memory.map_or_else(|| available_memory().unwrap_or(0), Bytes::count);
    let device = device_of(trunk);
    let nic = allowed.nic.map(Bandwidth::bits_per_sec);
    Offer {
        cores,
        memory,
        nic: nic.or_else(|| device.as_deref().and_then(speed)),
        traffic: allowed.traffic.map(Bandwidth::bits_per_sec),
        hosts: allowed.hosts.unwrap_or(HOSTS),
    }
}

/// Largest UDP payload that leaves whole through the device that has `address`.
pub(super) fn datagram(address: IpAddr) -> u32 {
    let mtu = || -> Option<u32> {
        let mut socket = Socket::open().ok()?;
        let found = socket.addresses().ok()?.into_iter().find(|own| own.address == address)?;
        socket.mtu(found.device).ok()
    };
    // Without an answer, what every IPv6 path takes (RFC 8200 §5).
    datagram_size(Bytes::new(mtu().unwrap_or(1280).into()), address.is_ipv6()) as u32
}

/// Whether this machine has `address`.
pub(super) fn is_own(address: IpAddr) -> bool {
    device_of(address).is_some()
}

/// The first address of this machine that others may reach.
pub(crate) fn first_address() -> Option<IpAddr> {
    let addresses = Socket::open().and_then(|mut socket| socket.addresses()).ok()?;
    let mut usable = addresses.into_iter().filter(|own| own.is_global && own.is_usable);
    usable.next().map(|own| own.address)
}

fn device_of(address: IpAddr) -> Option<String> {
    let addresses = Socket::open().and_then(|mut socket| socket.addresses()).ok()?;
    let own = addresses.into_iter().find(|own| own.address == address)?;
    sys::netlink::name_of(own.device).ok()
}

/// What the driver says, in Mbit/s; virtual devices say nothing, or -1.
fn speed(device: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    let mbits: u64 = text.trim().parse().ok().filter(|&mbits| mbits > 0)?;
    mbits.checked_mul(1_000_000)
}

/// Memory that can be had without swapping, within the control groups of this process.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = meminfo(&text)?;
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let limit = path.and_then(|path| cgroup_room(Path::new("/sys/fs/cgroup"), Path::new(path)));
    Some(limit.map_or(machine, |limit| limit.min(machine)))
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least room of a control group and those above it; `None` where none has a limit.
fn cgroup_room(root: &Path, path: &Path) -> Option<u64> {
    let groups = path.ancestors().map(|group| root.join(group));
    groups.filter_map(|group| room(&group)).min()
}

fn room(group: &Path) -> Option<u64> {
    let number = |file: &str| -> Option<u64> {
        std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()
    };
    let limit = number("memory.max")?;
    Some(limit.saturating_sub(number("memory.current").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(cgroup_room(root.path(), Path::new("a/b")), None);
        std::fs::write(root.path().join("a/memory.max"), "5000\n").unwrap();
        std::fs::write(root.path().join("a/memory.current"), "1000\n").unwrap();
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_room(root.path(), Path::new("a/b")), Some(4000));
        std::fs::write(inner.join("memory.max"), "700\n").unwrap();
        assert_eq!(cgroup_room(root.path(), Path::new("a/b")), Some(700));
    }

    #[test]
    fn memory_of_the_machine() {
        let text = "MemTotal: 9 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(meminfo(text), Some(2 << 20));
        assert_eq!(meminfo("MemAvailable: much kB"), None);
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn what_the_operator_says_goes_first() {
        let allowed = Allowed {
            cores: Some(1.5),
            memory: Some(Bytes::new(7)),
            nic: Some(Bandwidth::from_mbits_per_sec(1)),
            traffic: None,
            hosts: Some(3),
        };
        let offer = offer(&allowed, IpAddr::from([127, 0, 0, 1]));
        let wanted = Offer { cores: 1.5, memory: 7, nic: Some(1_000_000), traffic: None, hosts: 3 };
        assert_eq!(offer, wanted);
        assert!(is_own(IpAddr::from([127, 0, 0, 1])) && datagram([127, 0, 0, 1].into()) > 10_000);
        assert_eq!(datagram([192, 0, 2, 1].into()), 1248);
    }
}
