//! The machine's own network for hosts of a lab that asks for it, through pasta (passt).
//!
//! pasta must start outside the lab, where the real network is, and must not outlive it. So a
//! broker is forked beside the lab's process: the lab sends it a host's network namespace over a
//! socket, the broker starts pasta on it, and ends all of them when the socket closes.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::FdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use sys::{namespace, netlink};

use crate::enclosure::HostNet;
use crate::{Error, Result};

/// The device that pasta makes in a host's namespace.
const DEVICE: &str = "uplink0";

/// A host's address on the uplink, the same in every host, and the other end's.
const ADDRESS: &str = "172.31.255.2";
const GATEWAY: &str = "172.31.255.1";
const PREFIX: &str = "30";

/// `resolv.conf` for hosts with an uplink: pasta forwards what is asked at the gateway.
pub const RESOLVER: &str = "nameserver 172.31.255.1\n";

/// A pasta that hangs (some do, where `/dev/net/tun` is closed) is given up after this.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the broker looks for a pasta that has ended, and the lab for its device.
const LOOK: Duration = Duration::from_millis(20);

/// The lab's end of the way to the broker. Dropping it ends the uplinks of all hosts.
#[derive(Debug)]
pub struct Uplink(UnixStream);

/// Where pasta is installed.
pub(crate) fn find_pasta() -> Result<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&search).map(|dir| dir.join("pasta"));
    places.find(|path| path.is_file()).ok_or(Error::NoPasta)
}

impl Uplink {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Connects a host, called `name`, with the machine's network.
    ///
    /// # Errors
    /// [`Error::Uplink`] with what pasta said, or when it needs longer than five seconds.
    pub fn connect(&mut self, host: &HostNet, name: &str) -> Result<()> {
        let failed = |why: String| Error::Uplink { node: name.to_owned(), why };
        let user = namespace::open("/proc/self/ns/user")?;
        send(&self.0, [host.netns.as_fd(), user.as_fd()])
            .map_err(|error| failed(error.to_string()))?;
        self.0.set_read_timeout(Some(LOOK)).map_err(|error| failed(error.to_string()))?;
        let start = Instant::now();
        loop {
            let mut said = [0; 512];
            match self.0.read(&mut said) {
                Ok(0) => return Err(failed("its broker has ended".to_owned())),
                Ok(length) => {
                    return Err(failed(String::from_utf8_lossy(&said[..length]).into_owned()));
                }
                // Nothing to complain of so far.
                Err(_) if is_connected(host)? => return Ok(()),
                Err(_) if start.elapsed() > PATIENCE => {
                    return Err(failed(format!("no answer within {} s", PATIENCE.as_secs())));
                }
                Err(_) => {}
            }
        }
    }
}

/// Whether the default route leads out of the lab.
fn is_connected(host: &HostNet) -> Result<bool> {
    let look = || {
        let routes = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        let is_default = |line: &str| line.starts_with(&format!("{DEVICE}\t00000000"));
        netlink::index_of(DEVICE).is_ok() && routes.lines().any(is_default)
    };
    Ok(namespace::in_net(host.netns.as_fd(), look)?)
}

fn send(stream: &UnixStream, files: [BorrowedFd<'_>; 2]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(stream, &[IoSlice::new(b"+")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next two descriptors; `None` at end-of-file.
fn receive(stream: &UnixStream) -> rustix::io::Result<Option<[OwnedFd; 2]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let slices = &mut [IoSliceMut::new(&mut byte)];
    let received = rustix::net::recvmsg(stream, slices, &mut control, flags)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files: Vec<OwnedFd> = files.by_ref().flatten().collect();
    files.try_into().map(Some).map_err(|_| rustix::io::Errno::BADMSG)
}

/// The broker's work, until the lab is gone.
pub(crate) fn serve(pasta: &Path, mut stream: UnixStream) -> i32 {
    let mut running: Vec<Child> = Vec::new();
    if stream.set_read_timeout(Some(LOOK)).is_err() {
        return 1;
    }
    loop {
        match receive(&stream) {
            Ok(Some([net, user])) => match start(pasta, &net, &user) {
                Ok(child) => running.push(child),
                Err(error) => {
                    let _ = stream.write_all(error.to_string().as_bytes());
                }
            },
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok(None) | Err(_) => break,
        }
        running.retain_mut(|child| {
            let Ok(Some(status)) = child.try_wait() else { return true };
            let mut said = String::new();
            if let Some(errors) = &mut child.stderr {
                let _ = errors.read_to_string(&mut said);
            }
            let last = said.lines().rfind(|line| !line.contains("syslog")).unwrap_or_default();
            let _ = stream.write_all(format!("{status}: {last}").as_bytes());
            false
        });
    }
    for child in &mut running {
        let _ = child.kill();
        let _ = child.wait();
    }
    0
}

/// Starts pasta on a namespace that it inherits: it may not look into `/proc` of a process with
/// more capabilities than it keeps.
fn start(pasta: &Path, net: &OwnedFd, user: &OwnedFd) -> std::io::Result<Child> {
    let inherited = |fd: &OwnedFd| -> std::io::Result<String> {
        rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        Ok(format!("/proc/self/fd/{}", fd.as_raw_fd()))
    };
    let mut command = Command::new(pasta);
    command.args(["--foreground", "--quiet", "--config-net", "--ipv4-only", "--no-map-gw"]);
    command.args(["--ns-ifname", DEVICE, "--address", ADDRESS, "--netmask", PREFIX]);
    command.args(["--gateway", GATEWAY, "--dns-forward", GATEWAY]);
    // No port of the lab shows on the machine, and none of the machine in the lab.
    command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
    if namespace::identity().0 == 0 {
        // As another user it could not enter the lab's user namespace.
        command.args(["--runas", "0:0"]);
    }
    let own = std::fs::metadata("/proc/self/ns/user")?.ino();
    if rustix::fs::fstat(user)?.st_ino != own {
        command.args(["--userns", &inherited(user)?]);
    }
    command.args(["--netns", &inherited(net)?]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn descriptors_cross_a_socket() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = File::open("/proc/self/status").unwrap();
        send(&ours, [file.as_fd(), file.as_fd()]).unwrap();
        let [first, _second] = receive(&theirs).unwrap().unwrap();
        let mut text = String::new();
        File::from(first).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Name:"));
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }
}
