//! Uplinks from hosts of a lab to the host system's network, through pasta (passt).
//!
//! pasta must start outside the lab, where the real network is, and must not outlive it.
//! Therefore a broker process is forked beside the lab's process: the lab sends it a host's
//! network namespace over a socket, the broker starts pasta for it, and ends all pasta processes
//! when the socket closes.

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

/// The device that pasta creates in a host's namespace.
const DEVICE: &str = "uplink0";

/// A host's address on the uplink, the same in every host, and the address of the gateway.
const ADDRESS: &str = "172.31.255.2";
pub(crate) const GATEWAY: &str = "172.31.255.1";
const PREFIX_LENGTH: &str = "30";
/// Locally administered. By default pasta uses the address of the machine's interface, and rejects
/// one that has none, such as that of a host of a lab.
const GATEWAY_MAC: &str = "02:6e:65:74:00:03";
const ADDRESS_V6: &str = "fd6e:6575::2";
const GATEWAY_V6: &str = "fd6e:6575::1";

/// Optional destinations of an uplink besides the IPv4 network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The IPv6 network, if the machine has one.
    pub ipv6: bool,
    /// The machine's loopback address, under the address of the gateway.
    pub loopback: bool,
}

impl Access {
    fn to_byte(self) -> u8 {
        u8::from(self.ipv6) | u8::from(self.loopback) << 1
    }

    fn from_byte(byte: u8) -> Self {
        Self { ipv6: byte & 1 != 0, loopback: byte & 2 != 0 }
    }
}

/// `resolv.conf` for hosts with an uplink: pasta forwards DNS queries to the gateway. Search
/// domains and options are those of the machine.
pub(crate) fn resolver() -> String {
    let own = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    resolver_text(&own)
}

fn resolver_text(own: &str) -> String {
    let kept = ["search", "domain", "options"];
    let is_kept =
        |line: &&str| line.split_ascii_whitespace().next().is_some_and(|word| kept.contains(&word));
    let mut text = format!("nameserver {GATEWAY}\n");
    for line in own.lines().filter(is_kept) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The destination of a default route in `/proc/net/ipv6_route`.
const ANY_V6: &str = "00000000000000000000000000000000 00 ";

/// Timeout for the start of pasta, which may hang without access to `/dev/net/tun`.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which the broker checks for ended pasta processes, and the lab for its device.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The lab's connection to the broker. Dropping it ends the uplinks of all hosts.
#[derive(Debug)]
pub struct Uplink(UnixStream);

pub(crate) fn find_pasta() -> Result<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&search).map(|dir| dir.join("pasta"));
    places.find(|path| path.is_file()).ok_or(Error::NoPasta)
}

impl Uplink {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Connects a host, called `name`, to the host system's network.
    ///
    /// # Errors
    /// [`Error::Uplink`] with pasta's output, or if the connection takes longer than 5 s.
    pub fn connect(&mut self, host: &HostNet, name: &str, access: Access) -> Result<()> {
        let failed = |why: String| Error::Uplink { node: name.to_owned(), why };
        let user = namespace::open("/proc/self/ns/user")?;
        send(&self.0, [host.netns.as_fd(), user.as_fd()], access)
            .map_err(|error| failed(error.to_string()))?;
        self.0.set_read_timeout(Some(POLL_INTERVAL)).map_err(|error| failed(error.to_string()))?;
        let start = Instant::now();
        loop {
            let mut output = [0; 512];
            match self.0.read(&mut output) {
                Ok(0) => return Err(failed("its broker has ended".to_owned())),
                Ok(length) => {
                    return Err(failed(String::from_utf8_lossy(&output[..length]).into_owned()));
                }
                // After a timeout: pasta has not reported an error.
                Err(_) if is_connected(host)? => return Ok(()),
                Err(_) if start.elapsed() > START_TIMEOUT => {
                    return Err(failed(format!("no answer within {} s", START_TIMEOUT.as_secs())));
                }
                Err(_) => {}
            }
        }
    }
}

/// Whether the default route leads out of the lab.
fn is_connected(host: &HostNet) -> Result<bool> {
    let read = |name: &str| {
        let path = Path::new("/proc/thread-self/net").join(name);
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let look = || {
        let v4 = |line: &str| line.starts_with(&format!("{DEVICE}\t00000000"));
        let v6 = |line: &str| line.starts_with(ANY_V6) && line.trim_end().ends_with(DEVICE);
        netlink::index_of(DEVICE).is_ok()
            && (read("route").lines().any(v4) || read("ipv6_route").lines().any(v6))
    };
    Ok(namespace::in_net(host.netns.as_fd(), look)?)
}

fn send(stream: &UnixStream, files: [BorrowedFd<'_>; 2], access: Access) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(
        stream,
        &[IoSlice::new(&[access.to_byte()])],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// The next request, with two descriptors; `None` at end-of-file.
fn receive(stream: &UnixStream) -> rustix::io::Result<Option<([OwnedFd; 2], Access)>> {
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
    let files = files.try_into().map_err(|_| rustix::io::Errno::BADMSG)?;
    Ok(Some((files, Access::from_byte(byte[0]))))
}

/// The main function of the broker; it runs until the lab has ended.
pub(crate) fn serve(pasta: &Path, mut stream: UnixStream) -> i32 {
    let mut running: Vec<Child> = Vec::new();
    if stream.set_read_timeout(Some(POLL_INTERVAL)).is_err() {
        return 1;
    }
    loop {
        match receive(&stream) {
            Ok(Some(([net, user], access))) => match start(pasta, &net, &user, access) {
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
            let mut output = String::new();
            if let Some(errors) = &mut child.stderr {
                let _ = errors.read_to_string(&mut output);
            }
            let last = output.lines().rfind(|line| !line.contains("syslog")).unwrap_or_default();
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

/// Starts pasta with an inherited namespace descriptor, since it may not access `/proc` of a
/// process that has more capabilities.
fn start(pasta: &Path, net: &OwnedFd, user: &OwnedFd, access: Access) -> std::io::Result<Child> {
    let inherited = |fd: &OwnedFd| -> std::io::Result<String> {
        rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        Ok(format!("/proc/self/fd/{}", fd.as_raw_fd()))
    };
    let mut command = Command::new(pasta);
    command.args(["--foreground", "--quiet", "--config-net"]);
    if access.ipv6 {
        // Otherwise the host gets the machine's own address, and cannot reach the machine.
        command.args(["--address", ADDRESS_V6, "--gateway", GATEWAY_V6]);
    } else {
        command.arg("--ipv4-only");
    }
    command.args((!access.loopback).then_some("--no-map-gw"));
    command.args(["--ns-ifname", DEVICE, "--address", ADDRESS, "--netmask", PREFIX_LENGTH]);
    command.args(["--gateway", GATEWAY, "--dns-forward", GATEWAY, "--mac-addr", GATEWAY_MAC]);
    // Disables port forwarding in both directions.
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
    fn resolver_keeps_search_domains() {
        let own = "# comment\nnameserver 1.1.1.1\nsearch a.example b.example\noptions edns0\n";
        let text = "nameserver 172.31.255.1\nsearch a.example b.example\noptions edns0\n";
        assert_eq!(resolver_text(own), text);
    }

    #[test]
    fn passes_descriptors_over_socket() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = File::open("/proc/self/status").unwrap();
        let access = Access { ipv6: false, loopback: true };
        send(&ours, [file.as_fd(), file.as_fd()], access).unwrap();
        let ([first, _second], requested) = receive(&theirs).unwrap().unwrap();
        assert_eq!(requested, access);
        let mut text = String::new();
        File::from(first).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Name:"));
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }
}
