//! The resources of the machine, limited by the operator.

use std::net::IpAddr;
use std::path::Path;

use base::{Bandwidth, Bytes};
use cluster::control::Offer;
use cluster::trunk::datagram_size;
use sys::netlink::Socket;

/// The operator's limits of the machine's resources.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allowed {
    pub cores: Option<f64>,
    pub memory: Option<Bytes>,
    /// Rate of the trunk's interface, if the kernel reports none or a wrong one.
    pub nic: Option<Bandwidth>,
    /// Max rate of emulated traffic.
    pub traffic: Option<Bandwidth>,
    pub hosts: Option<u32>,
}

/// Default max hosts. Each has a network namespace.
const DEFAULT_MAX_HOSTS: u32 = 4000;

/// The resources that the agent offers.
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
        hosts: allowed.hosts.unwrap_or(DEFAULT_MAX_HOSTS),
    }
}

/// Max UDP payload that the device with `address` sends without fragmentation.
pub(super) fn datagram(address: IpAddr) -> u32 {
    let mtu = || -> Option<u32> {
        let mut socket = Socket::open().ok()?;
        let found = socket.addresses().ok()?.into_iter().find(|own| own.address == address)?;
        socket.mtu(found.device).ok()
    };
    // If the MTU is unknown, the MTU of every IPv6 path (RFC 8200 §5).
    datagram_size(Bytes::new(mtu().unwrap_or(1280).into()), address.is_ipv6()) as u32
}

/// Whether this machine has `address`.
pub(super) fn is_own(address: IpAddr) -> bool {
    device_of(address).is_some()
}

/// The first address of this machine that other machines can reach.
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

/// The rate that the driver reports (in Mbit/s); virtual devices report none, or -1.
fn speed(device: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    let mbits: u64 = text.trim().parse().ok().filter(|&mbits| mbits > 0)?;
    mbits.checked_mul(1_000_000)
}

/// Memory available without swapping, within the control groups of this process.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = meminfo(&text)?;
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let limit =
        path.and_then(|path| cgroup_free_memory(Path::new("/sys/fs/cgroup"), Path::new(path)));
    Some(limit.map_or(machine, |limit| limit.min(machine)))
}

fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The least free memory of a control group and its ancestors; `None` if none has a limit.
fn cgroup_free_memory(root: &Path, path: &Path) -> Option<u64> {
    let groups = path.ancestors().map(|group| root.join(group));
    groups.filter_map(|group| free_memory(&group)).min()
}

fn free_memory(group: &Path) -> Option<u64> {
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
    fn least_limit_of_all_control_groups_applies() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(cgroup_free_memory(root.path(), Path::new("a/b")), None);
        std::fs::write(root.path().join("a/memory.max"), "5000\n").unwrap();
        std::fs::write(root.path().join("a/memory.current"), "1000\n").unwrap();
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_free_memory(root.path(), Path::new("a/b")), Some(4000));
        std::fs::write(inner.join("memory.max"), "700\n").unwrap();
        assert_eq!(cgroup_free_memory(root.path(), Path::new("a/b")), Some(700));
    }

    #[test]
    fn reads_available_memory() {
        let text = "MemTotal: 9 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(meminfo(text), Some(2 << 20));
        assert_eq!(meminfo("MemAvailable: many kB"), None);
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn limits_of_operator_take_precedence() {
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
