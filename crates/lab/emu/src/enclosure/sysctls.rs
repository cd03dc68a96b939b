//! Kernel parameters of a node's namespace, written only if they differ from the kernel's default:
//! each write costs a path lookup, and a lab may have thousands of nodes.

use std::collections::BTreeSet;

use base::NodeId;
use lab::plan::{Node, Plan, Role};
use sys::sysctl;

/// Required parameters by kind of namespace.
#[derive(Debug)]
pub(super) struct Sysctls {
    host: Vec<(&'static str, &'static str)>,
    multi_homed: Vec<(&'static str, &'static str)>,
    router: Vec<(&'static str, &'static str)>,
    /// Groups that may send ICMP echo requests without privileges; determined at the first node.
    ping_groups: Option<&'static str>,
    /// Nodes with programs of other users, which have no capabilities.
    with_users: BTreeSet<NodeId>,
}

const FORWARDING: [&str; 2] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];

/// Hosts have configured addresses and routes, so they send no router solicitations, which a run on
/// the virtual clock does not have. Advertisements of a router's programs are received.
const SOLICITATIONS: (&str, &str) = ("net/ipv6/conf/default/router_solicitations", "0");

/// A user namespace accepts only groups that are mapped into it.
const PING_GROUP_RANGE: &str = "net/ipv4/ping_group_range";

/// The first port that programs without capabilities may use.
const UNPRIVILEGED_PORT_START: &str = "net/ipv4/ip_unprivileged_port_start";

/// Permits asymmetric routing, and selects equal-cost paths per flow.
const MULTIPATH: [(&str, &str); 4] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv6/fib_multipath_hash_policy", "1"),
];

impl Sysctls {
    /// Uses the values of the calling thread's namespace as the defaults of new namespaces, which
    /// is correct if they are unchanged, as in the lab's own namespace.
    pub(super) fn of_this_namespace(plan: &Plan) -> Self {
        let differs = |(name, value): &(&'static str, &'static str)| {
            sysctl::read(name).is_ok_and(|now| now != *value)
        };
        let forwarding = |value| FORWARDING.map(|name| (name, value));
        let multipath = MULTIPATH.into_iter().filter(differs);
        let host: Vec<_> =
            forwarding("0").into_iter().chain([SOLICITATIONS]).filter(differs).collect();
        let router = forwarding("1").into_iter().filter(differs).chain(multipath.clone()).collect();
        let multi_homed = host.iter().copied().chain(multipath).collect();
        let with_users = plan.programs.iter().filter(|program| program.user.is_some());
        let with_users = with_users.map(|program| program.node).collect();
        Self { host, multi_homed, router, ping_groups: None, with_users }
    }

    /// Sets the parameters of `node` in the calling thread's namespace.
    pub(super) fn apply(&mut self, id: NodeId, node: &Node) -> sys::Result<()> {
        let list = match node.kind {
            Role::Host if node.ifaces.len() > 1 => &self.multi_homed,
            Role::Host => &self.host,
            Role::Router | Role::Switch | Role::SendBox | Role::ReceiveBox => &self.router,
        };
        for (name, value) in list {
            sysctl::write(name, value)?;
        }
        if node.user.is_some() || self.with_users.contains(&id) {
            sysctl::write(UNPRIVILEGED_PORT_START, "0")?;
        }
        match self.ping_groups {
            Some(groups) => sysctl::write(PING_GROUP_RANGE, groups)?,
            None => {
                for groups in ["0 2147483647", "0 65535", "0 0"] {
                    if sysctl::write(PING_GROUP_RANGE, groups).is_ok() {
                        self.ping_groups = Some(groups);
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
