//! `agent`: runs the agent of a cluster on this host.

use cluster_live::address::{self, Cluster, host_and_port};
use cluster_live::agent::{Agent, Allowed, Board, Notification, Options};
use cluster_live::credentials::{Credentials, KEY_FILE, Role};
use cluster_live::enrol;
use sys::confine::Capabilities;

use crate::args::cluster::agent as args;
use crate::daemon::{self, Daemon};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, interrupts, status};
use run::Exit;

/// The capabilities for labs, as far as they are available. Without those for user namespaces (some
/// containers), labs use the user namespace of the agent.
fn labs(daemon: &Daemon) -> Capabilities {
    if daemon.changes_user() {
        return HOST_CAPABILITIES;
    }
    if USER_MAPPING_CAPABILITIES.are_effective() {
        return LAB_CAPABILITIES;
    }
    LAB_CAPABILITIES.and(Capabilities::SYS_ADMIN).and(Capabilities::NET_RAW)
}

const USER_MAPPING_CAPABILITIES: Capabilities =
    Capabilities::SETUID.and(Capabilities::SETGID).and(Capabilities::SETFCAP);

/// Real-time scheduling of the data path, and large buffers of the trunks' sockets.
const HOST_CAPABILITIES: Capabilities = Capabilities::SYS_NICE
    .and(Capabilities::SYS_RESOURCE)
    .and(Capabilities::NET_ADMIN)
    .and(Capabilities::NET_BIND_SERVICE);

/// Capabilities that labs of root need outside their user namespace.
const LAB_CAPABILITIES: Capabilities =
    USER_MAPPING_CAPABILITIES.and(HOST_CAPABILITIES).and(Capabilities::DAC_OVERRIDE);

pub(crate) fn agent(args: &args::Agent, terminal: &Terminal) -> Verdict {
    let addresses = |list: &[String]| {
        let list = list.iter().map(|address| host_and_port(address));
        list.collect::<Result<Vec<_>, _>>().map_err(|e| failure(&e))
    };
    let daemon = args.privileges.daemon()?;
    if let Some(dir) = &args.dir {
        daemon.own_folder(dir)?;
    }
    // Labs create namespaces, for which they need system calls that other daemons block.
    let socket = status::socket("agent", Some(&daemon))?;
    daemon.drop_privileges(labs(&daemon), false)?;
    let credentials = credentials(args, terminal)?;
    // If the certificate is valid for many names, the default is the host name.
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
        // Shards run in other working directories.
        dir: std::path::absolute(&dir)
            .map_err(|e| Failure::machine(format!("cannot find {}: {e}", dir.display())))?,
        keep: args.keep.count(),
        silence_timeout: args.silence_timeout,
        program,
    };
    let mut agent = Agent::open(options).map_err(|e| failure(&e))?;
    let stop = agent.stop();
    interrupts::each(move || stop.stop())?;
    let source = status::Watched {
        prefix: "netarium_agent",
        board: agent.board(),
        status: Board::json,
        metrics: Board::metrics,
        is_healthy: Board::is_healthy,
    };
    let _server = status::watch(source, &args.watch, socket, terminal)?;
    let mut notify = |notification: Notification| {
        if matches!(notification, Notification::Listening { .. }) {
            daemon::report_ready(&notification.to_string());
        }
        if !terminal.json {
            terminal.note(&notification);
        } else if let Ok(value) = serde_json::to_value(&notification) {
            // The agent continues if the output is closed.
            let _ = terminal.object(&value);
        }
    };
    agent.run(&mut notify).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The agent's credentials. With an invitation, missing ones are requested.
fn credentials(args: &args::Agent, terminal: &Terminal) -> Result<Credentials, Failure> {
    let dir = address::credentials_dir(args.access.credentials.clone()).map_err(|e| failure(&e))?;
    if let Some(invitation) = &args.invitation {
        if dir.join(KEY_FILE).exists() {
            terminal.note(format!("note: {} has credentials already", dir.display()));
        } else {
            let name = args.name.clone().unwrap_or_else(host_name);
            enrol::enrol(invitation, &name, &dir).map_err(|e| failure(&e))?;
            terminal.note(format!("enrolled; the credentials are in {}", dir.display()));
        }
    }
    Credentials::load(&dir, Role::Agent).map_err(|e| failure(&e))
}

/// The specified cluster; `None` without one.
pub(crate) fn target(args: &args::Target) -> Result<Option<Cluster>, Failure> {
    let Some(named) = args.name() else { return Ok(None) };
    let given = args.access.credentials.as_deref();
    Cluster::named(named, given).map(Some).map_err(|e| failure(&e))
}

/// The failure of the command for an error of the cluster.
pub(crate) fn failure(error: &cluster_live::Error) -> Failure {
    let failure = Failure::caused(error.exit_code(), error);
    match error {
        cluster_live::Error::Unstored { lab, .. } => failure.help(format!(
            "the agents keep them for a day: fix the cause, then `netarium cluster collect {lab}`"
        )),
        _ => failure,
    }
}
