//! Every host knows every other by name: files that the resolver reads, put over the machine's
//! own in the lab's private mount namespace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use lab::plan::Plan;
use sys::namespace::{self, Mode};

use super::Notice;

/// The lab's mounts are its own: what is mounted now is seen by nobody else. Only the launch of
/// a lab makes one of these.
#[derive(Debug)]
pub struct PrivateMounts(pub(crate) ());

/// Where the files are made: any directory that exists; it is covered for a moment only.
const WORKSHOP: &str = "/tmp";

const RESOLVER: &str = "\
# Inside a lab there is no name server; names come from the hosts file.
nameserver 127.0.0.1
options timeout:1 attempts:1
";

/// IPv4 before IPv6 (RFC 6724 section 2.1 leaves this to the site): a lab's programs often
/// listen on IPv4 alone.
const PREFERENCE: &str = "\
precedence ::1/128 50
precedence ::/0 40
precedence 2002::/16 30
precedence ::/96 20
precedence ::ffff:0:0/96 100
";

/// The lab's hosts file: all addresses of all nodes.
pub fn hosts_text(plan: &Plan) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for iface in &plan.ifaces {
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

/// The machine's name service switch, with host names looked up in the hosts file first.
fn switch_text(original: &str) -> String {
    let mut text = String::new();
    for line in original.lines().filter(|line| !line.trim_start().starts_with("hosts:")) {
        text.push_str(line);
        text.push('\n');
    }
    text + "hosts: files dns\n"
}

/// Puts `hosts`, `resolv.conf`, `nsswitch.conf` and `gai.conf` over those of the machine, for
/// every process that is started in the lab from now on. `resolver` is the text of `resolv.conf`
/// where a name server can be reached.
pub fn install_names(_: &PrivateMounts, plan: &Plan, resolver: Option<&str>) -> Vec<Notice> {
    let mut files = BTreeMap::from([
        ("/etc/hosts", hosts_text(plan)),
        ("/etc/resolv.conf", resolver.unwrap_or(RESOLVER).to_owned()),
        ("/etc/gai.conf", PREFERENCE.to_owned()),
    ]);
    if let Ok(original) = fs::read_to_string("/etc/nsswitch.conf") {
        files.insert("/etc/nsswitch.conf", switch_text(&original));
    }
    // Only the first is indispensable; without the others the kernel's and libc's defaults do.
    files.retain(|target, _| *target == "/etc/hosts" || Path::new(target).exists());
    let workshop = Path::new(WORKSHOP);
    let installed = namespace::mount_new("tmpfs", workshop, Mode::Plain).map(|()| {
        let notices: Vec<Notice> = files
            .iter()
            .enumerate()
            .filter_map(|(at, (target, text))| {
                let source = workshop.join(at.to_string());
                let written = fs::write(&source, text)
                    .map_err(|cause| sys::Error::file("write", &source, cause));
                let bound = written.and_then(|()| namespace::bind(&source, Path::new(target)));
                bound.err().map(Notice::Names)
            })
            .collect();
        notices
    });
    match installed {
        Ok(mut notices) => {
            // The files stay where they are bound.
            notices.extend(namespace::detach(workshop).err().map(Notice::Names));
            notices
        }
        Err(cause) => vec![Notice::Names(cause)],
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_switch_reads_files_first() {
        let text = super::switch_text("passwd: files\nhosts: resolve [!UNAVAIL=return] files\n");
        assert_eq!(text, "passwd: files\nhosts: files dns\n");
    }
}
