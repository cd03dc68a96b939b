//! Facts about the host, found by experiment. Experiments that change the calling process
//! run in a child.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sys::confine::private;
use sys::namespace::{self, Kinds};
use sys::netlink::{Batch, Socket, Veth};
use sys::{limits, packet, sched, tun};

use crate::users;

/// The first argument that makes a program that uses [`Facts::collect`] run only [`probe_main`].
pub const PROBE_ARGUMENT: &str = "netarium-probe";

/// A failed request to the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The request and the kernel's error.
    pub text: String,
    /// The error number, if there is one.
    pub errno: Option<i32>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<sys::Error> for Refusal {
    fn from(error: sys::Error) -> Self {
        Self { errno: error.errno(), text: error.to_string() }
    }
}

/// The facts. `None` for a refusal means that the capability is available.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The process has the capabilities to create namespaces without a user namespace.
    pub privileged: bool,
    /// Why a lab's namespaces cannot be created.
    pub namespaces: Option<Refusal>,
    /// Why TUN devices cannot be created inside.
    pub tun: Option<Refusal>,
    /// Whether TUN supports UDP super-packets.
    pub udp_segmentation: bool,
    /// Why veth pairs with packet sockets cannot be created inside.
    pub packet: Option<Refusal>,
    /// Why real-time scheduling is not possible.
    pub realtime: Option<Refusal>,
    /// Resolution of the monotonic clock in ns.
    pub clock_ns: u64,
    pub cores: usize,
    /// Steal time since boot as a share of CPU time; `None`: unknown.
    pub steal: Option<f64>,
    /// Maximum number of open files of a lab.
    pub open_files: Option<u64>,
    /// Congestion controllers available to flows.
    pub controls: Vec<String>,
    /// Whether the kernel supports Multipath TCP in labs.
    pub mptcp: bool,
    /// Why programs of labs cannot run as other users, with the fix.
    pub users: Option<String>,
    /// Why nodes cannot have private files.
    pub private_files: Option<Refusal>,
    /// Whether a folder that a program removes from private files can be made again.
    pub remade_folders: bool,
    pub pasta: Option<PathBuf>,
    /// Value of `kernel.apparmor_restrict_unprivileged_userns`, if it exists.
    pub apparmor_restricts: Option<bool>,
    /// Value of Debian's `kernel.unprivileged_userns_clone`, if it exists.
    pub userns_clone: Option<bool>,
    /// Value of `user.max_user_namespaces`, if it exists.
    pub max_user_namespaces: Option<u64>,
    pub tun_exists: bool,
    /// The user is not mapped in its user namespace.
    #[serde(default)]
    pub unmapped_user: bool,
    /// The user is root without the capability to map itself to a user namespace.
    #[serde(default)]
    pub unmappable_root: bool,
    /// `/proc` belongs to another PID namespace than this process.
    #[serde(default)]
    pub foreign_proc: bool,
}

/// Results of the child's experiments.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ProbeResults {
    namespaces: Option<Refusal>,
    tun: Option<Refusal>,
    udp_segmentation: bool,
    packet: Option<Refusal>,
    mptcp: bool,
    private_files: Option<Refusal>,
    remade_folders: bool,
    realtime: Option<Refusal>,
}

impl Facts {
    /// Collects the facts. The calling program must call [`probe_main`] if it gets
    /// [`PROBE_ARGUMENT`].
    ///
    /// # Errors
    /// If the child cannot be started or returns no result.
    pub fn collect() -> io::Result<Self> {
        let output = Command::new("/proc/self/exe")
            .arg(PROBE_ARGUMENT)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()?;
        let results: ProbeResults = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let switch = |name: &str| number(name).map(|value| value != 0);
        let foreign_proc = foreign_proc();
        Ok(Self {
            privileged: namespace::is_privileged(),
            namespaces: results.namespaces.or_else(|| foreign_proc.clone()),
            tun: results.tun,
            udp_segmentation: results.udp_segmentation,
            packet: results.packet,
            realtime: results.realtime,
            clock_ns: clock_resolution(),
            cores: sched::cpus(),
            steal: sched::CpuTimes::read().ok().map(sched::CpuTimes::steal_share),
            open_files: limits::raise_open_files().ok(),
            controls: controls(),
            mptcp: results.mptcp,
            users: users::refusal(),
            private_files: results.private_files,
            remade_folders: results.remade_folders,
            pasta: users::in_path("pasta"),
            apparmor_restricts: switch("kernel/apparmor_restrict_unprivileged_userns"),
            userns_clone: switch("kernel/unprivileged_userns_clone"),
            max_user_namespaces: number("user/max_user_namespaces"),
            tun_exists: fs::metadata(tun::DEVICE).is_ok(),
            unmapped_user: !namespace::is_user_mapped(),
            unmappable_root: namespace::is_unmappable_root(),
            foreign_proc: foreign_proc.is_some(),
        })
    }
}

/// The main function of the child: creates a lab's namespaces, tests both engines inside, prints
/// the results, and exits; the kernel then removes everything it created.
pub fn probe_main() -> io::Result<()> {
    // Before entering a user namespace, in which real-time scheduling is never allowed.
    let realtime = sched::set_fifo(1).and_then(|()| sched::set_ordinary()).err().map(Into::into);
    let mut results = ProbeResults { realtime, ..ProbeResults::default() };
    match enter_lab() {
        Ok(()) => {
            match tun::Tun::open("probe0") {
                Ok(device) => results.udp_segmentation = device.has_udp_segmentation(),
                Err(error) => results.tun = Some(error.into()),
            }
            results.packet = try_packet().err().map(Into::into);
            results.mptcp = sys::netlink::mptcp::is_supported();
            match private::probe(Path::new("/tmp")) {
                Ok(remade) => results.remade_folders = remade,
                Err(error) => results.private_files = Some(error.into()),
            }
        }
        Err(error) => {
            let refusal = Refusal::from(error);
            results.tun = Some(refusal.clone());
            results.packet = Some(refusal.clone());
            results.namespaces = Some(refusal);
        }
    }
    let mut out = io::stdout().lock();
    out.write_all(&serde_json::to_vec(&results)?)?;
    out.flush()
}

/// The supervisor of a lab finds its processes in `/proc`, which must show their PID namespace.
fn foreign_proc() -> Option<Refusal> {
    let (shown, own) = (fs::read_link("/proc/self").ok()?, std::process::id());
    let text = format!("/proc shows this process as {}, and its pid is {own}", shown.display());
    (shown.to_str() != Some(&own.to_string())).then_some(Refusal { text, errno: None })
}

fn enter_lab() -> sys::Result<()> {
    let inner = Kinds::NET | Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS;
    namespace::unshare_with_user(Kinds::NONE, None)?;
    // Ubuntu's AppArmor permits the user namespace but denies all operations inside it.
    namespace::unshare(inner)?;
    namespace::make_mounts_private()
}

fn try_packet() -> sys::Result<()> {
    let lab = namespace::current_net()?;
    namespace::unshare(Kinds::NET)?;
    let mut batch = Batch::new();
    batch.add_veth(&Veth {
        name: "probe1",
        address: [2, 0, 0, 0, 0, 1],
        peer_name: "probe2",
        peer_address: [2, 0, 0, 0, 0, 2],
        peer_net: std::os::fd::AsFd::as_fd(&lab),
        mtu: 1500,
    });
    Socket::open()?.submit(batch)?;
    namespace::enter(std::os::fd::AsFd::as_fd(&lab), Kinds::NET)?;
    packet::open(sys::netlink::index_of("probe2")?)?;
    Ok(())
}

fn clock_resolution() -> u64 {
    let step = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
    step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64
}

fn controls() -> Vec<String> {
    let list = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all = list("tcp_available_congestion_control");
    all.sort();
    all
}
