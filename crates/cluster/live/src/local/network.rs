//! The physical network of a cluster on one machine.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use base::{Bandwidth, Bytes, Span};
use sys::namespace::{self, Kinds, Mode};
use sys::netlink::{Batch, LOOPBACK, LinkSettings, Socket, Veth, index_of};

use super::layout::{HUB, Local, PREFIX, file_of};
use crate::Result;

pub(super) const BRIDGE: &str = "hub";
/// The device in each agent's namespace.
const DEVICE: &str = "eth0";
const MTU: u32 = 1500;
/// Max queueing delay of a link with a rate.
const MAX_QUEUE_DELAY: Span = Span::from_millis(50);
/// Burst of the rate limit: a super-packet with its headers.
const BURST: Bytes = Bytes::new(68 << 10);

const UP: LinkSettings =
    LinkSettings { up: Some(true), mtu: None, queue: None, no_own_addresses: true, no_arp: false };

/// Makes the bridge in the calling process's network namespace, and for each agent a network
/// namespace with a link to the bridge. Files of the cluster refer to the namespaces.
pub(super) fn build(local: &Local, place: &Path) -> Result<Vec<OwnedFd>> {
    let mut socket = Socket::open()?;
    let mut batch = Batch::new();
    batch.set_link(LOOPBACK, &UP);
    batch.add_bridge(BRIDGE);
    socket.submit(batch)?;
    let bridge = index_of(BRIDGE)?;
    let mut batch = Batch::new();
    batch.add_address(bridge, HUB.into(), PREFIX);
    batch.set_link(bridge, &UP);
    socket.submit(batch)?;
    let (mut nets, names) = (Vec::new(), Names::new());
    for (at, name) in local.names.iter().enumerate() {
        let net = new_namespace(&file_of(place, name, "net"), &names, name)?;
        connect(&mut socket, at, name, net.as_fd())?;
        let port = index_of(name)?;
        let mut batch = Batch::new();
        batch.add_port(port, bridge);
        limit(&mut batch, port, local.rate);
        batch.set_link(port, &UP);
        socket.submit(batch)?;
        namespace::in_net(net.as_fd(), || configure(at, local.rate))??;
        nets.push(net);
    }
    Ok(nets)
}

/// Makes a network namespace and binds it to `file`.
fn new_namespace(file: &Path, names: &Names, name: &str) -> Result<OwnedFd> {
    let home = namespace::current_net()?;
    namespace::unshare(Kinds::NET)?;
    let net = namespace::current_net()?;
    let own = Path::new("/proc/thread-self/ns/net");
    make(file)?;
    namespace::bind(own, file)?;
    names.add(own, name)?;
    namespace::enter(home.as_fd(), Kinds::NET)?;
    Ok(net)
}

fn connect(socket: &mut Socket, at: usize, name: &str, net: BorrowedFd<'_>) -> Result<()> {
    let hardware = |end| [0x02, 0x6e, 0x74, 0, end, at as u8 + 1];
    let mut batch = Batch::new();
    batch.add_veth(&Veth {
        name,
        address: hardware(0),
        peer_name: DEVICE,
        peer_address: hardware(1),
        peer_net: net,
        mtu: MTU,
    });
    Ok(socket.submit(batch)?)
}

/// Configures the agent's end of its link.
fn configure(at: usize, rate: Option<Bandwidth>) -> Result<()> {
    let device = index_of(DEVICE)?;
    let mut batch = Batch::new();
    batch.add_address(device, (*Local::address(at).ip()).into(), PREFIX);
    limit(&mut batch, device, rate);
    batch.set_link(LOOPBACK, &UP);
    batch.set_link(device, &UP);
    Ok(Socket::open()?.submit(batch)?)
}

fn limit(batch: &mut Batch, device: u32, rate: Option<Bandwidth>) {
    if let Some(rate) = rate {
        let queue = rate.bytes_in(MAX_QUEUE_DELAY).count();
        batch.limit_rate(device, rate, BURST, Bytes::new(queue + BURST.count()));
    }
}

fn make(file: &Path) -> Result<()> {
    File::create(file).map_err(|e| sys::Error::file("make", file, e))?;
    Ok(())
}

/// The folder of `ip netns`, if the machine has one. In the cluster it has the agents' namespaces
/// instead of the machine's.
struct Names(Option<&'static Path>);

impl Names {
    fn new() -> Self {
        let folder = Path::new("/run/netns");
        let shown = folder.is_dir() && namespace::mount_new("tmpfs", folder, Mode::Plain).is_ok();
        Self(shown.then_some(folder))
    }

    fn add(&self, net: &Path, name: &str) -> Result<()> {
        let Some(folder) = self.0 else { return Ok(()) };
        let file = folder.join(name);
        make(&file)?;
        Ok(namespace::bind(net, &file)?)
    }
}

/// Mounts a `/sys` with the devices of the calling process's network namespace, if permitted.
pub(super) fn mount_sysfs() {
    if fs::metadata("/sys").is_ok() {
        let _ = namespace::mount_new("sysfs", Path::new("/sys"), Mode::ReadOnly);
    }
}
