//! Facts about the machine, found by trying. What changes the calling process is tried in a child.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::namespace::{self, Kinds};
use sys::netlink::{Batch, Socket, Veth};
use sys::{clock, limits, packet, sched, tun};

/// The hidden first argument with which a program that uses [`Facts::collect`] runs
/// [`probe_main`] and nothing else.
pub const PROBE_ARGUMENT: &str = "netarium-probe";

/// Sleeps that the timer is judged by.
const SLEEPS: usize = 200;
/// Length of one such sleep.
const SLEEP: Duration = Duration::from_micros(200);

/// What the kernel refused, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The request and the kernel's answer.
    pub text: String,
    /// The error number, where there is one.
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

/// What was found. `None` where a capability is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Capabilities for namespaces are at hand without a user namespace.
    pub privileged: bool,
    /// Why a lab's namespaces cannot be made.
    pub namespaces: Option<Refusal>,
    /// Why TUN devices cannot be made inside.
    pub tun: Option<Refusal>,
    /// Whether TUN passes UDP super-packets.
    pub udp_segmentation: bool,
    /// Why veth pairs with packet sockets cannot be made inside.
    pub packet: Option<Refusal>,
    /// Why real-time scheduling is not possible.
    pub realtime: Option<Refusal>,
    /// How late a short sleep ended: median and 99th percentile, in ns.
    pub wake_ns: Option<(u64, u64)>,
    /// Resolution of the monotonic clock in ns.
    pub clock_ns: u64,
    /// Processors.
    pub cores: usize,
    /// Share of the machine's time since boot that its host gave to others; `None`: unknown.
    pub steal: Option<f64>,
    /// Files that a lab may have open.
    pub open_files: Option<u64>,
    /// Congestion controls that flows may use.
    pub controls: Vec<String>,
    /// Whether the kernel has Multipath TCP for labs.
    pub mptcp: bool,
    /// Where pasta is.
    pub pasta: Option<PathBuf>,
    /// Value of `kernel.apparmor_restrict_unprivileged_userns`, where it exists.
    pub apparmor_restricts: Option<bool>,
    /// Value of Debian's `kernel.unprivileged_userns_clone`, where it exists.
    pub userns_clone: Option<bool>,
    /// Value of `user.max_user_namespaces`, where it exists.
    pub max_user_namespaces: Option<u64>,
    /// Whether `/dev/net/tun` exists.
    pub tun_exists: bool,
}

/// What the child finds out.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Tried {
    namespaces: Option<Refusal>,
    tun: Option<Refusal>,
    udp_segmentation: bool,
    packet: Option<Refusal>,
    mptcp: bool,
    realtime: Option<Refusal>,
    wake_ns: Option<(u64, u64)>,
}

impl Facts {
    /// Looks and tries. The calling program must hand [`PROBE_ARGUMENT`] to [`probe_main`].
    ///
    /// # Errors
    /// When the child cannot be started or does not answer.
    pub fn collect() -> io::Result<Self> {
        let output = Command::new("/proc/self/exe")
            .arg(PROBE_ARGUMENT)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()?;
        let tried: Tried = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let switch = |name: &str| number(name).map(|value| value != 0);
        Ok(Self {
            privileged: namespace::is_privileged(),
            namespaces: tried.namespaces,
            tun: tried.tun,
            udp_segmentation: tried.udp_segmentation,
            packet: tried.packet,
            realtime: tried.realtime,
            wake_ns: tried.wake_ns,
            clock_ns: clock_resolution(),
            cores: sched::cpus(),
            steal: sched::CpuTimes::read().ok().map(sched::CpuTimes::steal_share),
            open_files: limits::raise_open_files().ok(),
            controls: controls(),
            mptcp: tried.mptcp,
            pasta: in_path("pasta"),
            apparmor_restricts: switch("kernel/apparmor_restrict_unprivileged_userns"),
            userns_clone: switch("kernel/unprivileged_userns_clone"),
            max_user_namespaces: number("user/max_user_namespaces"),
            tun_exists: fs::metadata(tun::DEVICE).is_ok(),
        })
    }
}

/// The body of the child: makes a lab's namespaces, tries both engines inside, prints what it
/// found, and ends, with which everything it made goes away.
pub fn probe_main() -> io::Result<()> {
    let wake_ns = wake_lateness().ok();
    // Before entering a user namespace: there, real-time scheduling is never allowed.
    let realtime = sched::set_fifo(1).and_then(|()| sched::set_ordinary()).err().map(Into::into);
    let mut tried = Tried { realtime, wake_ns, ..Tried::default() };
    match enter_lab() {
        Ok(()) => {
            match tun::Tun::open("probe0") {
                Ok(device) => tried.udp_segmentation = device.has_udp_segmentation(),
                Err(error) => tried.tun = Some(error.into()),
            }
            tried.packet = try_packet().err().map(Into::into);
            tried.mptcp = sys::netlink::mptcp::is_supported();
        }
        Err(error) => {
            let refusal = Refusal::from(error);
            tried.tun = Some(refusal.clone());
            tried.packet = Some(refusal.clone());
            tried.namespaces = Some(refusal);
        }
    }
    let mut out = io::stdout().lock();
    out.write_all(&serde_json::to_vec(&tried)?)?;
    out.flush()
}

fn enter_lab() -> sys::Result<()> {
    let inner = Kinds::NET | Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS;
    namespace::unshare_with_user(Kinds::NONE)?;
    // Ubuntu's AppArmor lets the user namespace be made and refuses everything inside it.
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

fn wake_lateness() -> sys::Result<(u64, u64)> {
    sched::set_timer_slack(1)?;
    let mut late: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let start = clock::monotonic();
            std::thread::sleep(SLEEP);
            (clock::monotonic() - start).saturating_sub(SLEEP.as_nanos() as u64)
        })
        .collect();
    late.sort_unstable();
    Ok((late[SLEEPS / 2], late[SLEEPS * 99 / 100]))
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

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
