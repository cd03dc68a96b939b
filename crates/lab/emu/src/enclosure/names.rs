//! Name resolution of all hosts in a lab: resolver files that are bind-mounted over those of the
//! system in the lab's private mount namespace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use base::NodeId;
use lab::plan::{Plan, Uplink};
use sys::namespace::{self, Access, Mode};

use super::Notice;
use crate::uplink::GATEWAY;

/// Proof that the caller is in the lab's mount namespace, so that new mounts are not visible
/// outside. Only the launch of a lab creates it.
#[derive(Debug)]
pub struct PrivateMounts(pub(crate) ());

/// Directory in which the files are created: any existing directory; the mount on it is temporary.
const TEMPORARY_MOUNT: &str = "/tmp";

const RESOLVER: &str = "\
# A lab has no name server: names are looked up in the hosts file.
nameserver 127.0.0.1
options timeout:1 attempts:1
";

/// Prefer IPv4 to IPv6 (RFC 6724 section 2.1 permits a site policy), since a lab's programs often
/// listen on IPv4 only.
const ADDRESS_PREFERENCE: &str = "\
precedence ::1/128 50
precedence ::/0 40
precedence 2002::/16 30
precedence ::/96 20
precedence ::ffff:0:0/96 100
";

/// The lab's hosts file: all addresses of all nodes.
pub fn hosts_text(plan: &Plan) -> String {
    let text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    add_nodes(text, plan, |_| true)
}

/// The hosts file for a command of the user, with the names of the machine. The router with the
/// uplink is the machine: pasta maps the gateway's address to the machine's loopback address.
pub(crate) fn attached_hosts_text(plan: &Plan, machine: &str) -> String {
    let Uplink::Router(outside) = plan.uplink else {
        return add_nodes(String::new(), plan, |_| true) + machine;
    };
    let text = format!("{GATEWAY} {}\n", plan.nodes[outside.index()].name);
    add_nodes(text, plan, |node| node != outside) + machine
}

fn add_nodes(mut text: String, plan: &Plan, is_listed: impl Fn(NodeId) -> bool) -> String {
    for iface in plan.ifaces.iter().filter(|iface| is_listed(iface.node)) {
        let name = &plan.nodes[iface.node.index()].name;
        if let Some((address, _)) = iface.v4 {
            let _ = writeln!(text, "{address} {name}");
        }
        if let Some((address, _)) = iface.v6 {
            let _ = writeln!(text, "{address} {name}");
        }
    }
    text
}

/// The system's name service switch file, changed to look up host names in the hosts file first.
fn switch_text(original: &str) -> String {
    let mut text = String::new();
    for line in original.lines().filter(|line| !line.trim_start().starts_with("hosts:")) {
        text.push_str(line);
        text.push('\n');
    }
    text + "hosts: files dns\n"
}

/// Mounts `hosts`, `resolv.conf`, `nsswitch.conf` and `gai.conf` over those of the system, for
/// all processes started in the lab from now on. `hosts` is the text of the first; `resolver` is
/// that of `resolv.conf` if a name server is reachable.
pub fn install_names(_: &PrivateMounts, hosts: String, resolver: Option<&str>) -> Vec<Notice> {
    let mut files = BTreeMap::from([
        ("/etc/hosts", hosts),
        ("/etc/resolv.conf", resolver.unwrap_or(RESOLVER).to_owned()),
        ("/etc/gai.conf", ADDRESS_PREFERENCE.to_owned()),
    ]);
    if let Ok(original) = fs::read_to_string("/etc/nsswitch.conf") {
        files.insert("/etc/nsswitch.conf", switch_text(&original));
    }
    // Only the first is required; for the others the defaults of kernel and libc are sufficient.
    files.retain(|target, _| *target == "/etc/hosts" || Path::new(target).exists());
    let mount = Path::new(TEMPORARY_MOUNT);
    let installed = namespace::mount_new("tmpfs", mount, Mode::Plain).map(|()| {
        let notices: Vec<Notice> = files
            .iter()
            .enumerate()
            .filter_map(|(at, (target, text))| {
                let source = mount.join(at.to_string());
                let written = fs::write(&source, text)
                    .map_err(|cause| sys::Error::file("write", &source, cause));
                let target = Path::new(target);
                let bound = written
                    .and_then(|()| namespace::bind(&source, target))
                    .and_then(|()| namespace::set_access(target, Access::ReadOnly, false));
                bound.err().map(Notice::Names)
            })
            .collect();
        notices
    });
    match installed {
        Ok(mut notices) => {
            // The bind mounts keep the files.
            notices.extend(namespace::detach(mount).err().map(Notice::Names));
            notices
        }
        Err(cause) => vec![Notice::Names(cause)],
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn name_switch_reads_hosts_file_first() {
        let text = super::switch_text("passwd: files\nhosts: resolve [!UNAVAIL=return] files\n");
        assert_eq!(text, "passwd: files\nhosts: files dns\n");
    }
}
