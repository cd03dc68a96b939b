//! `agent`: this machine's part of a cluster, and how clusters are entered.

use cluster_live::address::{self, Cluster, host_and_port};
use cluster_live::agent::{Agent, Allowed, News, Options};
use cluster_live::credentials::{Credentials, KEY_FILE, Role};
use cluster_live::enrol;
use sys::confine::Capabilities;

use crate::args::agent as args;
use crate::daemon::Daemon;
use crate::exit::Exit;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, interrupts};

/// What labs take of the capabilities at hand. Without those for users in user namespaces (some
/// containers), labs are made in the user namespace of the agent.
fn labs(daemon: &Daemon) -> Capabilities {
    if daemon.changes_user() {
        return HOST;
    }
    if MAP_USERS.are_effective() {
        return LABS;
    }
    LABS.and(Capabilities::SYS_ADMIN).and(Capabilities::NET_RAW)
}

const MAP_USERS: Capabilities =
    Capabilities::SETUID.and(Capabilities::SETGID).and(Capabilities::SETFCAP);

/// Real-time scheduling of the data path, and large buffers of trunks' sockets.
const HOST: Capabilities = Capabilities::SYS_NICE
    .and(Capabilities::SYS_RESOURCE)
    .and(Capabilities::NET_ADMIN)
    .and(Capabilities::NET_BIND_SERVICE);

/// What labs of root need outside their user namespace.
const LABS: Capabilities = MAP_USERS.and(HOST).and(Capabilities::DAC_OVERRIDE);

pub(crate) fn agent(args: &args::Agent, terminal: &Terminal) -> Verdict {
    let addresses = |list: &[String]| {
        let list = list.iter().map(|address| host_and_port(address));
        list.collect::<Result<Vec<_>, _>>().map_err(|e| failure(&e))
    };
    let daemon = args.privileges.daemon()?;
    if let Some(dir) = &args.dir {
        daemon.own_folder(dir)?;
    }
    // The labs make namespaces, which takes system calls that are refused elsewhere.
    daemon.drop_privileges(labs(&daemon), false)?;
    let credentials = credentials(args, terminal)?;
    // A certificate for many names leaves the choice to the host.
    let certified = Some(&credentials.identity.name).filter(|name| !name.ends_with('*'));
    let name = args.name.as_ref().or(certified).cloned().unwrap_or_else(host_name);
    let dir = args.dir.clone().unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("netarium-agent-{name}-{user}"))
    });
    let program = std::env::current_exe()
        .map_err(|e| Failure::machine(format!("cannot find the own executable: {e}")))?;
    let options = Options {
        name,
        listen: addresses(&args.listen)?,
        join: addresses(&args.join)?,
        credentials,
        trunk: args.trunk_address,
        ports: args.trunk_ports.clone(),
        allowed: Allowed {
            cores: args.allowed.cores,
            memory: args.allowed.memory,
            nic: args.allowed.nic,
            traffic: args.allowed.traffic,
            hosts: args.allowed.hosts,
        },
        // Pieces run in folders of their own.
        dir: std::path::absolute(&dir)
            .map_err(|e| Failure::machine(format!("cannot find {}: {e}", dir.display())))?,
        keep: args.keep.count(),
        program,
    };
    let agent = Agent::open(options).map_err(|e| failure(&e))?;
    let stop = agent.stop();
    interrupts::each(move || stop.stop())?;
    let mut tell = |news: News| {
        if !terminal.json {
            terminal.talk(&news);
        } else if let Ok(value) = serde_json::to_value(&news) {
            // Who does not read on does not end the labs.
            let _ = terminal.object(&value);
        }
    };
    agent.run(&mut tell).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The agent's credentials; new ones where there are none and it is invited.
fn credentials(args: &args::Agent, terminal: &Terminal) -> Result<Credentials, Failure> {
    let dir = address::credentials_dir(args.access.credentials.clone()).map_err(|e| failure(&e))?;
    if let Some(invitation) = &args.invitation {
        if dir.join(KEY_FILE).exists() {
            terminal.talk(format!("note: {} has credentials already", dir.display()));
        } else {
            let name = args.name.clone().unwrap_or_else(host_name);
            enrol::enrol(invitation, &name, &dir).map_err(|e| failure(&e))?;
            terminal.talk(format!("enrolled; the credentials are in {}", dir.display()));
        }
    }
    Credentials::load(&dir, Role::Agent).map_err(|e| failure(&e))
}

/// The cluster that was named; `None` where none was.
pub(crate) fn target(args: &args::Target) -> Result<Option<Cluster>, Failure> {
    let Some(named) = args.name() else { return Ok(None) };
    let given = args.access.credentials.as_deref();
    Cluster::named(named, given).map(Some).map_err(|e| failure(&e))
}

/// An error of the cluster's.
pub(crate) fn failure(error: &cluster_live::Error) -> Failure {
    let failure = Failure::caused(Exit::of_run(error.exit_code().into()), error);
    match error {
        cluster_live::Error::Unstored { lab, .. } => failure.help(format!(
            "the agents keep them for a day: mend that, then `netarium cluster collect {lab}`"
        )),
        _ => failure,
    }
}
