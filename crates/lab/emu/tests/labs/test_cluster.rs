//! Shards of one lab, each in its own process, and a test implementation of their agents, which
//! forwards messages between shards.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Span;
use cluster::control::{FromShard, ShardProgress, ToShard};
use cluster::{AgentId, Assignment};
use emu::run::run_shard;
use emu::shard::Shard;
use lab::plan::Plan;
use run::observation::{self, Ending, Observation, ObservationReader, Peer};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use sys::process::{self, Child, Exit, Signal};

use super::wire::{Ends, Wire};

/// Timeout of all waits.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Egress lead time.
const LEAD: Span = Span::from_millis(1);

/// The plan of a lab's text.
pub(crate) fn plan(text: &str) -> Plan {
    let lab = lab::parse("cluster.toml", text, Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
    lab.plans.into_iter().next().unwrap()
}

/// A shard, with its agent's end of the control connection.
pub(crate) struct Member {
    child: Child,
    control: Option<BufReader<UnixStream>>,
    notices: Option<OwnedFd>,
    pub(crate) trunk: SocketAddr,
    pub(crate) ready: bool,
    /// Its last progress report.
    pub(crate) progress: ShardProgress,
    /// Its run folder, or its error.
    pub(crate) ended: Option<Result<PathBuf, String>>,
}

impl Member {
    pub(crate) fn send(&self, message: &ToShard) {
        let Some(control) = &self.control else { return };
        let mut line = serde_json::to_vec(message).unwrap();
        line.push(b'\n');
        // An error means that the shard has ended.
        let _ = control.get_ref().write_all(&line);
    }

    /// Kills its process; the lab's process must end too.
    pub(crate) fn kill(&mut self) {
        self.child.signal(Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal_lab(&self, signal: rustix::process::Signal) {
        let pid = self.child.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let children: Vec<i32> = children.split(' ').filter_map(|pid| pid.parse().ok()).collect();
        assert_eq!(children.len(), 1, "{children:?}");
        let child = rustix::process::Pid::from_raw(children[0]).unwrap();
        rustix::process::kill_process(child, signal).unwrap();
    }

    /// Closes the control connection, as if the agent had ended.
    pub(crate) fn abandon(&mut self) -> Exit {
        (self.control, self.notices) = (None, None);
        self.child.wait().unwrap()
    }

    pub(crate) fn output(&self, program: &str) -> String {
        let folder = self.ended.as_ref().unwrap().as_ref().unwrap();
        let path = folder.join("programs").join(program).join("stdout");
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub(crate) fn observations(&self, plan: &Plan) -> Vec<Observation> {
        let folder = self.ended.as_ref().unwrap().as_ref().unwrap();
        let mut reader = ObservationReader::open(&folder.join(observation::FILE), plan).unwrap();
        std::iter::from_fn(|| reader.next_observation().unwrap()).collect()
    }

    /// The shard's report about its own run, and about each other agent.
    pub(crate) fn reports(&self, plan: &Plan) -> (Ending, Vec<Peer>) {
        let (mut ending, mut peers) = (None, Vec::new());
        for seen in self.observations(plan) {
            match seen {
                Observation::End(one) => ending = Some(*one),
                Observation::Peer(one) => peers.push(*one),
                _ => {}
            }
        }
        (ending.unwrap(), peers)
    }
}

pub(crate) struct TestCluster {
    pub(crate) members: Vec<Member>,
    /// The link between two agents, if it has an emulated delay.
    pub(crate) wire: Option<Wire>,
    since: Instant,
    folder: tempfile::TempDir,
}

impl TestCluster {
    /// Forks the shards; `owner` returns the agent of a node by its name.
    pub(crate) fn launch(text: &str, members: u16, owner: impl Fn(&str) -> Option<u16>) -> Self {
        Self::with(text, members, owner, false)
    }

    /// Forks two shards connected by a wire.
    pub(crate) fn with_wire(text: &str, owner: impl Fn(&str) -> Option<u16>) -> Self {
        Self::with(text, 2, owner, true)
    }

    fn with(text: &str, members: u16, owner: impl Fn(&str) -> Option<u16>, is_wired: bool) -> Self {
        let plan = Arc::new(plan(text));
        let owners = plan.nodes.iter().map(|node| owner(&node.name).map(AgentId)).collect();
        let folder = tempfile::tempdir().unwrap();
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sockets: Vec<(OwnedFd, SocketAddr)> =
            (0..members).map(|_| sys::socket::train_socket(local, 4 << 20).unwrap()).collect();
        let shard = Shard {
            id: "0123456789abcdef".to_owned(),
            own: AgentId(0),
            assignment: Assignment::new(owners),
            members: (0..members).map(|at| format!("m{at}")).collect(),
            trunks: sockets.iter().map(|(_, address)| *address).collect(),
            key: [7; 32],
            encrypt: true,
            datagram: 1432,
            leads: vec![LEAD; usize::from(members)],
            runs_dir: PathBuf::new(),
            lab_dir: folder.path().to_owned(),
            stay: false,
            engine: None,
            plan,
        };
        let ends = is_wired.then(|| Ends::of([sockets[0].1, sockets[1].1]));
        let mut cluster = Self { members: Vec::new(), wire: None, since: Instant::now(), folder };
        for (at, (trunk, address)) in sockets.into_iter().enumerate() {
            let runs_dir = cluster.folder.path().join(format!("m{at}"));
            let mut shard = Shard { own: AgentId::at(at), runs_dir, ..shard.clone() };
            if let Some(ends) = &ends {
                shard.trunks[1 - at] = ends.address(1 - at);
            }
            cluster.fork(shard, trunk, address);
        }
        cluster.wire = ends.map(Ends::connect);
        cluster
    }

    fn fork(&mut self, shard: Shard, trunk: OwnedFd, address: SocketAddr) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (notices, other) = socketpair(kind.0, kind.1, kind.2, None).unwrap();
        let mut kept = Some((ours, notices));
        let (copy, members) = (&mut kept, &mut self.members);
        let child = process::fork(move || {
            // A shard must read end-of-file when its agent has ended, even if
            // other shards still run.
            drop(copy.take());
            members.clear();
            run_shard(shard, trunk, other, theirs).map_or(1, |()| 0)
        });
        let (control, notices) = kept.unwrap();
        self.members.push(Member {
            child: Child::of(child.unwrap()).unwrap(),
            control: Some(BufReader::new(control)),
            notices: Some(notices),
            trunk: address,
            ready: false,
            progress: ShardProgress::default(),
            ended: None,
        });
    }

    /// Waits until all shards are ready and starts them together. Returns lab time zero.
    pub(crate) fn begin(&mut self) -> u64 {
        self.run_until(|cluster| cluster.members.iter().all(|member| member.ready));
        let origin_ns = sys::clock::monotonic() + 400_000_000;
        self.send(&ToShard::Start { origin_ns, bound_ns: 1_000 });
        origin_ns
    }

    /// Runs the lab until all shards have reported this lab time.
    pub(crate) fn run_to(&mut self, seconds: f64) {
        let at = (seconds * 1e9) as u64;
        self.run_until(|cluster| cluster.members.iter().all(|member| member.progress.now_ns >= at));
    }

    pub(crate) fn send(&self, message: &ToShard) {
        self.members.iter().for_each(|member| member.send(message));
    }

    /// Ends the lab when all shards are idle.
    pub(crate) fn finish(&mut self) {
        self.run_until(|cluster| {
            cluster.members.iter().all(|m| m.progress.idle || m.ended.is_some())
        });
        self.stop();
    }

    pub(crate) fn stop(&mut self) {
        self.send(&ToShard::Stop);
        self.run_until(|cluster| cluster.members.iter().all(|member| member.ended.is_some()));
    }

    /// Forwards messages until `done`; a lab that hangs fails its test.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            let state: Vec<_> = self.members.iter().map(|m| (&m.progress, &m.ended)).collect();
            assert!(self.since.elapsed() < TIMEOUT, "{state:?}");
            self.pass();
        }
    }

    fn pass(&mut self) {
        let mut fds = Vec::new();
        let mut owners = Vec::new();
        for (at, member) in self.members.iter().enumerate() {
            if let Some(control) = &member.control {
                fds.push(PollFd::new(control.get_ref(), PollFlags::IN));
                owners.push((at, true));
            }
            if let Some(notices) = &member.notices {
                fds.push(PollFd::new(notices, PollFlags::IN));
                owners.push((at, false));
            }
        }
        let nap = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let _ = rustix::event::poll(&mut fds, Some(&nap));
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for ((at, is_control), _) in owners.into_iter().zip(happened).filter(|(_, some)| *some) {
            if is_control { self.read_control(at) } else { self.relay(at) }
        }
    }

    /// Handles the messages of a shard to its agent.
    fn read_control(&mut self, at: usize) {
        loop {
            let Some(control) = &mut self.members[at].control else { return };
            let mut line = String::new();
            let more = control.read_line(&mut line).unwrap_or(0) > 0;
            let rest = !control.buffer().is_empty();
            if !more {
                let member = &mut self.members[at];
                member.control = None;
                member.ended.get_or_insert_with(|| Err("it is gone".to_owned()));
                return;
            }
            let member = &mut self.members[at];
            match serde_json::from_str(&line).unwrap() {
                FromShard::Ready => member.ready = true,
                FromShard::Progress(progress) => member.progress = progress,
                FromShard::Failed { text, .. } => member.ended = Some(Err(text)),
                FromShard::Finished { folder } => member.ended = Some(Ok(folder)),
                FromShard::Program(_) if self.wire.as_ref().is_some_and(Wire::is_cut) => {}
                FromShard::Program(event) => {
                    let others = self.members.iter().enumerate().filter(|(other, _)| *other != at);
                    others.for_each(|(_, member)| member.send(&ToShard::Program(event)));
                }
            }
            if !rest {
                return;
            }
        }
    }

    /// Forwards the messages between shards.
    fn relay(&mut self, from: usize) {
        let mut bytes = vec![0; 1 << 18];
        loop {
            let Some(notices) = &self.members[from].notices else { return };
            let Ok((length, _)) = rustix::net::recv(notices, &mut bytes[..], RecvFlags::DONTWAIT)
            else {
                return;
            };
            let Some((to, message)) = bytes[..length].split_first_chunk() else {
                self.members[from].notices = None;
                return;
            };
            if self.wire.as_ref().is_some_and(Wire::is_cut) {
                continue;
            }
            let to = u16::from_le_bytes(*to);
            let message = [&(from as u16).to_le_bytes()[..], message].concat();
            for (at, member) in self.members.iter().enumerate() {
                let wanted = if to == u16::MAX { at != from } else { at == usize::from(to) };
                if let Some(notices) = member.notices.as_ref().filter(|_| wanted) {
                    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                    let _ = rustix::net::send(notices, &message, flags);
                }
            }
        }
    }
}
