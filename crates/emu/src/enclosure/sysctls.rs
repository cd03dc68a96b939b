//! Kernel parameters of a node's namespace, written only where the kernel's default differs:
//! each costs a path look-up, and there may be thousands of nodes.

use lab::plan::{Node, Role};
use sys::sysctl;

/// What must hold in namespaces of each sort.
#[derive(Debug)]
pub(super) struct Sysctls {
    host: Vec<(&'static str, &'static str)>,
    multi_homed: Vec<(&'static str, &'static str)>,
    router: Vec<(&'static str, &'static str)>,
    /// Groups that may send ICMP echo requests without privilege; found at the first node.
    ping_groups: Option<&'static str>,
}

const FORWARDING: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

/// In a user namespace only groups that are mapped into it can be named.
const PING: &str = "net/ipv4/ping_group_range";

/// Replies may leave by another interface than the requests came in by, equal-cost paths are
/// chosen per flow.
const SEVERAL_WAYS: [(&str, &str); 4] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv6/fib_multipath_hash_policy", "1"),
];

impl Sysctls {
    /// Compares with the values of the calling thread's namespace. They are those of every new
    /// one when nobody has changed them here, as in the lab's own.
    pub(super) fn of_this_namespace() -> Self {
        let differs = |(name, value): &(&'static str, &'static str)| {
            sysctl::read(name).is_ok_and(|now| now != *value)
        };
        let forwarding = |value| FORWARDING.map(|name| (name, value));
        let several = SEVERAL_WAYS.into_iter().filter(differs);
        let host: Vec<_> = forwarding("0").into_iter().filter(differs).collect();
        let router = forwarding("1").into_iter().filter(differs).chain(several.clone()).collect();
        let multi_homed = host.iter().copied().chain(several).collect();
        Self { host, multi_homed, router, ping_groups: None }
    }

    /// Sets the parameters of `node` in the calling thread's namespace.
    pub(super) fn apply(&mut self, node: &Node) -> sys::Result<()> {
        let list = match node.kind {
            Role::Host if node.ifaces.len() > 1 => &self.multi_homed,
            Role::Host => &self.host,
            Role::Router | Role::Switch | Role::SendBox | Role::ReceiveBox => &self.router,
        };
        for (name, value) in list {
            sysctl::write(name, value)?;
        }
        match self.ping_groups {
            Some(groups) => sysctl::write(PING, groups)?,
            None => {
                for groups in ["0 2147483647", "0 0"] {
                    if sysctl::write(PING, groups).is_ok() {
                        self.ping_groups = Some(groups);
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
