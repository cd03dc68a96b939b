//! Converts facts to text, with commands that fix problems.

use lab::plan::Tolerance;
use run::effect::{Crossings, HostEffects};
use run::verdict::MAX_DISTORTED_SHARE;
use rustix::io::Errno;

use super::{Choice, Facts, Refusal, choose};
use crate::enclosure::Engine;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Good,
    /// Labs run, but a feature is missing or limited.
    Weak,
    /// Labs cannot run.
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable identifier for scripts.
    pub id: &'static str,
    pub level: Level,
    pub text: String,
    pub fix: Option<String>,
}

impl Finding {
    fn good(id: &'static str, text: impl Into<String>) -> Self {
        Self { id, level: Level::Good, text: text.into(), fix: None }
    }

    fn weak(id: &'static str, text: impl Into<String>, fix: Option<&str>) -> Self {
        Self { id, level: Level::Weak, text: text.into(), fix: fix.map(str::to_owned) }
    }

    fn bad(id: &'static str, text: impl Into<String>, fix: &str) -> Self {
        Self { id, level: Level::Bad, text: text.into(), fix: Some(fix.to_owned()) }
    }
}

/// The diagnosis, most important findings first.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![namespaces(facts)];
    if facts.namespaces.is_none() {
        all.extend([tun(facts), packet(facts)]);
    }
    all.extend([engine(facts), realtime(facts), clock(facts), cores(facts)]);
    all.extend([steal(facts), open_files(facts), controls(facts)]);
    if facts.namespaces.is_none() {
        all.extend([mptcp(facts), users(facts), private_files(facts)]);
    }
    all.push(pasta(facts));
    all
}

/// Why labs cannot create namespaces here, and what fixes it; `None` if they can.
pub fn no_namespaces(facts: &Facts) -> Option<(String, &'static str)> {
    let refusal = facts.namespaces.as_ref()?;
    let (why, fix) = explain(facts, refusal);
    Some((format!("{why} ({refusal})"), fix))
}

fn explain(facts: &Facts, refusal: &Refusal) -> (&'static str, &'static str) {
    if facts.unmapped_user {
        (
            "the user of this process has no number in its user namespace",
            "unshare --user --map-root-user, or start netarium outside of that namespace",
        )
    } else if facts.foreign_proc {
        (
            "/proc belongs to another PID namespace",
            "unshare --mount-proc, or in the namespace: mount -t proc proc /proc",
        )
    } else if refusal.errno == Some(Errno::INVAL.raw_os_error()) {
        (
            "the root folder is not a mount point, as in a plain chroot",
            "before chroot DIR: mount --bind DIR DIR",
        )
    } else if refusal.errno == Some(Errno::NOSPC.raw_os_error())
        && (facts.privileged || facts.max_user_namespaces != Some(0))
    {
        (
            "a limit on namespaces is reached",
            "end other labs and containers, or raise /proc/sys/user/max_*_namespaces",
        )
    } else if facts.unmappable_root && !facts.privileged {
        (
            "root without CAP_SETFCAP may not map itself to a user namespace",
            "run as another user, or give the container the capability: --cap-add SETFCAP",
        )
    } else if facts.privileged {
        ("although this user has the privileges", "run on a kernel with namespaces (CONFIG_NET_NS)")
    } else if facts.apparmor_restricts == Some(true) {
        (
            "AppArmor restricts unprivileged user namespaces",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        )
    } else if facts.userns_clone == Some(false) {
        (
            "unprivileged user namespaces are switched off",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )
    } else if facts.max_user_namespaces == Some(0) {
        ("no user namespace is allowed", "sudo sysctl -w user.max_user_namespaces=10000")
    } else {
        (
            "user namespaces are refused, probably by a container's seccomp profile",
            "run as root, or start the container with --security-opt seccomp=unconfined \
             --device /dev/net/tun",
        )
    }
}

fn namespaces(facts: &Facts) -> Finding {
    let id = "namespaces";
    let Some((why, fix)) = no_namespaces(facts) else {
        let how = if facts.privileged { "with this user's privileges" } else { "without root" };
        return Finding::good(id, format!("labs can create namespaces, {how}"));
    };
    Finding::bad(id, format!("no namespaces: {why}"), fix)
}

fn tun(facts: &Facts) -> Finding {
    let id = "tun";
    match &facts.tun {
        None if facts.udp_segmentation => {
            Finding::good(id, "TUN works, with TCP and UDP super-packets")
        }
        None => {
            Finding::weak(id, "TUN works, without UDP super-packets (Linux 6.2 has them)", None)
        }
        Some(refusal) if !facts.tun_exists => {
            Finding::weak(id, format!("no TUN: {refusal}"), Some("sudo modprobe tun"))
        }
        Some(refusal) => {
            let fix = "sudo chmod 0666 /dev/net/tun";
            Finding::weak(id, format!("no TUN: {refusal}"), Some(fix))
        }
    }
}

fn packet(facts: &Facts) -> Finding {
    let id = "packet";
    match &facts.packet {
        None => Finding::good(id, "veth with packet sockets works"),
        Some(refusal) => {
            let fix = match refusal.errno.map(Errno::from_raw_os_error) {
                Some(Errno::AFNOSUPPORT) => "sudo modprobe af_packet",
                _ => "sudo modprobe veth",
            };
            Finding::weak(id, format!("no veth with packet sockets: {refusal}"), Some(fix))
        }
    }
}

fn engine(facts: &Facts) -> Finding {
    let id = "engine";
    match choose(facts, None) {
        Ok(Choice { engine, why, .. }) => {
            Finding::good(id, format!("a run would use `{}`: {why}", engine.as_str()))
        }
        Err(_) if facts.namespaces.is_some() => {
            let fix = "see `namespaces`";
            Finding::bad(id, "no engine: programs need namespaces to run in", fix)
        }
        Err(_) => Finding::bad(id, "no engine works", "sudo modprobe tun veth"),
    }
}

fn realtime(facts: &Facts) -> Finding {
    let id = "realtime";
    match &facts.realtime {
        None => Finding::good(id, "real-time scheduling is allowed (realtime = true)"),
        Some(refusal) => Finding::weak(
            id,
            format!("no real-time scheduling: {refusal}"),
            Some(
                "echo \"$USER - rtprio 50\" | sudo tee /etc/security/limits.d/netarium.conf, \
                 and log in again",
            ),
        ),
    }
}

/// The expected trust in runs on this host with the default tolerances.
pub fn prediction(effects: &HostEffects) -> Finding {
    let text = format!("a run: {}", effects.text());
    let tolerable = Tolerance::default();
    let late = effects.added_delay(MAX_DISTORTED_SHARE, Crossings::by_kernel(1))
        > tolerable.floor.as_nanos() as f64;
    if !late && effects.stalled_share_of_run() <= tolerable.rate.as_f64() {
        return Finding::good("timer", text);
    }
    let fix = "close other programs; set realtime = true or precision = \"high\"";
    Finding::weak("timer", text + ": runs can be untrusted", Some(fix))
}

fn clock(facts: &Facts) -> Finding {
    let id = "clock";
    let text = format!("the clock counts in steps of {} ns", facts.clock_ns);
    if facts.clock_ns <= 1000 {
        return Finding::good(id, text);
    }
    Finding::weak(id, text, Some("boot with high-resolution timers (without highres=off)"))
}

fn cores(facts: &Facts) -> Finding {
    let id = "cores";
    if facts.cores >= 2 {
        return Finding::good(id, format!("{} processors", facts.cores));
    }
    let text = "one processor, which the data path and the programs share";
    Finding::weak(id, text, None)
}

fn steal(facts: &Facts) -> Finding {
    let id = "steal";
    let Some(share) = facts.steal else {
        return Finding::weak(id, "stolen time is unknown (no /proc/stat)", None);
    };
    let text = format!("{:.2} % of the time since boot was stolen by the host", share * 100.0);
    if share < 0.01 {
        return Finding::good(id, text);
    }
    Finding::weak(id, text, Some("run on a machine with dedicated CPUs"))
}

fn open_files(facts: &Facts) -> Finding {
    let id = "files";
    let Some(limit) = facts.open_files else {
        return Finding::weak(id, "the limit of open files is unknown", None);
    };
    // One namespace and at least one device per host; 64 for everything else.
    let hosts = limit.saturating_sub(64) / 2;
    let text = format!("{limit} open files: labs of up to {hosts} hosts");
    if hosts >= 500 {
        return Finding::good(id, text);
    }
    let fix = "echo \"$USER - nofile 65536\" | sudo tee /etc/security/limits.d/netarium.conf, \
                and log in again";
    Finding::weak(id, text, Some(fix))
}

fn controls(facts: &Facts) -> Finding {
    let id = "congestion-control";
    let text = format!("congestion controls: {}", facts.controls.join(", "));
    let has = |name: &str| facts.controls.iter().any(|control| control == name);
    if has("bbr") && has("cubic") && has("reno") {
        return Finding::good(id, text);
    }
    Finding::weak(id, text, Some("sudo modprobe -a tcp_bbr tcp_cubic"))
}

fn mptcp(facts: &Facts) -> Finding {
    let id = "mptcp";
    if facts.mptcp {
        return Finding::good(id, "the kernel has Multipath TCP (transport = \"mptcp\")");
    }
    let text = "no Multipath TCP in the kernel: flows with transport = \"mptcp\" fail";
    Finding::weak(id, text, Some("run on a kernel with CONFIG_MPTCP, Linux 5.19 or newer"))
}

fn users(facts: &Facts) -> Finding {
    let id = "users";
    let Some(why) = &facts.users else {
        return Finding::good(id, "programs can run as other users (user = \"NAME\")");
    };
    let (why, fix) = why.split_once("; fix: ").unwrap_or((why, ""));
    let fix = (!fix.is_empty()).then_some(fix);
    Finding::weak(id, format!("programs cannot run as other users: {why}"), fix)
}

fn private_files(facts: &Facts) -> Finding {
    let id = "private-files";
    match &facts.private_files {
        Some(refusal) => {
            let fix = "run on Linux 5.11 or newer with overlayfs: sudo modprobe overlay";
            Finding::weak(id, format!("nodes cannot have private files: {refusal}"), Some(fix))
        }
        None if facts.remade_folders => {
            Finding::good(id, "nodes can have private files (files = \"private\")")
        }
        None => Finding::weak(
            id,
            "in private files, a folder that a program removes cannot be made again (Linux 6.6 can)",
            None,
        ),
    }
}

fn pasta(facts: &Facts) -> Finding {
    let id = "pasta";
    match &facts.pasta {
        Some(path) => Finding::good(id, format!("uplink = true works through {}", path.display())),
        None => Finding::weak(id, "no pasta: uplink = true fails", Some("sudo apt install passt")),
    }
}

impl Engine {
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tun, Self::Packet].into_iter().find(|engine| engine.as_str() == name)
    }
}
