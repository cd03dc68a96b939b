//! The process of a shard: a hidden role of the executable, started by the agent.
//!
//! Its standard input is a stream socket to the agent. The agent first sends the length of the
//! [`Setup`] together with two descriptors, then the [`Setup`]; lines in both directions follow.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use base::Span;
use cluster::Assignment;
use cluster::control::{FromShard, Setup};
use emu::shard::Shard;
use lab::plan::Program;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::{Error, Result};

/// The first argument of the executable in this role.
pub const ARGUMENT: &str = "__netarium_shard";
const MAX_SETUP_BYTES: usize = 64 << 20;

/// Runs the shard that standard input describes. Returns the exit code.
///
/// The calling process must have one thread.
pub fn shard_main() -> u8 {
    let control = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(fd) => UnixStream::from(fd),
        Err(_) => return 4,
    };
    match receive_shard(&control) {
        Ok((piece, [trunk, notices])) => {
            match emu::run::run_shard(piece, trunk, notices, control) {
                Ok(()) => 0,
                Err(error) => error.exit_code().code(),
            }
        }
        Err(error) => {
            let failed =
                FromShard::Failed { text: error.to_string(), code: error.exit_code().code() };
            let mut line = crate::session::bytes(&failed);
            line.push(b'\n');
            // It fails only if the agent has ended.
            let _ = (&control).write_all(&line);
            error.exit_code().code()
        }
    }
}

fn receive_shard(control: &UnixStream) -> Result<(Shard, [OwnedFd; 2])> {
    // Resets the nice value inherited from the agent, which needs no permission.
    let _ = rustix::process::setpriority_process(None, 0);
    // The lab's programs must not inherit the socket.
    let null = std::fs::File::open("/dev/null").map_err(Error::file("open", "/dev/null"))?;
    rustix::stdio::dup2_stdin(&null).map_err(Error::machine("replace standard input"))?;
    let (setup, fds) = receive_setup(control)?;
    Ok((shard(setup)?, fds))
}

fn shard(setup: Setup) -> Result<Shard> {
    let trusting = lab::Overrides { trust_programs: true, ..lab::Overrides::default() };
    let lab = lab::load(&setup.lab, &trusting);
    let plan = lab.map_err(|e| invalid(&format!("the received lab is invalid: {e}")))?.plans.pop();
    let plan = plan.ok_or_else(|| invalid("the received lab is empty"))?;
    let engine = match setup.engine.as_deref() {
        None => None,
        Some("tun") => Some(emu::enclosure::Engine::Tun),
        Some("packet") => Some(emu::enclosure::Engine::Packet),
        Some(name) => return Err(invalid(&format!("unknown engine `{name}`: use tun or packet"))),
    };
    let key = from_hex(&setup.key)
        .ok_or_else(|| invalid("the lab's key is not 64 hexadecimal digits"))?;
    if setup.owners.len() != plan.nodes.len() || setup.trunks.len() != setup.agents.len() {
        return Err(invalid("the shard does not match its lab"));
    }
    let lab_dir = setup.lab.parent().unwrap_or(Path::new("/")).to_owned();
    let is_own = |program: &&Program| setup.owners[program.node.index()] == Some(setup.own);
    for program in plan.programs.iter().filter(is_own) {
        if let Some(word) = lab::missing_program(program, &lab_dir) {
            let text =
                format!("program `{}`: `{word}` is not installed on this agent", program.name);
            return Err(Error::Usage { text });
        }
    }
    Ok(Shard {
        plan: Arc::new(plan),
        id: setup.id,
        own: setup.own,
        assignment: Assignment::new(setup.owners),
        members: setup.agents,
        trunks: setup.trunks,
        key,
        encrypt: setup.encrypt,
        datagram: setup.datagram as usize,
        leads: setup.leads_ns.into_iter().map(Span::from_nanos).collect(),
        runs_dir: setup.runs_dir,
        lab_dir,
        stay: setup.stay,
        engine,
    })
}

fn invalid(text: &str) -> Error {
    Error::Usage { text: text.to_owned() }
}

/// Sends the setup and the descriptors to a shard's process.
pub(crate) fn send_setup(
    control: &UnixStream,
    fds: [BorrowedFd<'_>; 2],
    setup: &Setup,
) -> Result<()> {
    const ACTION: &str = "send the setup to the shard's process";
    let text = crate::session::bytes(setup);
    let length = (text.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(control, &[IoSlice::new(&length)], &mut ancillary, SendFlags::NOSIGNAL)
        .map_err(Error::machine(ACTION))?;
    (&mut &*control).write_all(&text).map_err(Error::machine(ACTION))
}

fn receive_setup(control: &UnixStream) -> Result<(Setup, [OwnedFd; 2])> {
    const ACTION: &str = "receive the setup from the agent";
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut length)];
    let read = recvmsg(control, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(Error::machine(ACTION))?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    let incomplete = || invalid("the agent closed the connection before the setup was complete");
    (&mut &*control).read_exact(&mut length[read.bytes.min(4)..]).map_err(|_| incomplete())?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_SETUP_BYTES {
        let text = format!("the setup has {length} bytes; the maximum is {MAX_SETUP_BYTES}");
        return Err(invalid(&text));
    }
    let mut text = Vec::new();
    (&mut &*control).take(length as u64).read_to_end(&mut text).map_err(Error::machine(ACTION))?;
    let setup = crate::session::read(&text).ok_or_else(incomplete)?;
    let fds = <[OwnedFd; 2]>::try_from(fds).map_err(|_| incomplete())?;
    Ok((setup, fds))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The bytes of 2 `N` hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? * 16 + digit(*low)?) as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use cluster::AgentId;
    use cluster::control::OnLoss;

    use super::*;

    fn loopback(port: u16) -> std::net::SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn setup(nodes: usize) -> Setup {
        Setup {
            id: "1".to_owned(),
            lab: "/lab.toml".into(),
            own: AgentId(1),
            owners: vec![Some(AgentId(0)); nodes],
            agents: vec!["a".to_owned(), "b".to_owned()],
            trunks: vec![loopback(1), loopback(2)],
            key: hex(&[0xab; 32]),
            encrypt: true,
            datagram: 1400,
            leads_ns: vec![0, 1],
            runs_dir: "/runs".into(),
            on_loss: OnLoss::Continue,
            stay: false,
            engine: None,
        }
    }

    #[test]
    fn receives_large_setup_with_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        let null = File::open("/dev/null").unwrap();
        let sent = setup(100_000);
        let copy = sent.clone();
        let sender = std::thread::spawn(move || {
            send_setup(&ours, [write.as_fd(), null.as_fd()], &copy).unwrap();
        });
        let (received, [write, null]) = receive_setup(&theirs).unwrap();
        sender.join().unwrap();
        assert_eq!(received, sent);
        File::from(write).write_all(b"x").unwrap();
        let mut byte = [0];
        read.read_exact(&mut byte).unwrap();
        assert_eq!((byte, File::from(null).read(&mut [0]).unwrap()), (*b"x", 0));
    }

    #[test]
    fn rejects_truncated_and_oversized_setup() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&mut &ours).write_all(&[9, 0]).unwrap();
        drop(ours);
        assert!(receive_setup(&theirs).is_err());
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&mut &ours).write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(receive_setup(&theirs).is_err());
    }

    #[test]
    fn parses_hexadecimal_keys() {
        assert_eq!(from_hex(&hex(&[7; 32])), Some([7; 32]));
        for text in ["", "g", &"zz".repeat(32), &"é".repeat(32)] {
            assert_eq!(from_hex::<32>(text), None);
        }
    }
}
