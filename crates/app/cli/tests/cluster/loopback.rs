//! Agents on the loopback interface, with the certificates of `netarium cluster init`.
#![allow(dead_code, reason = "each test program uses its part")]

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::bench::{Bench, NETARIUM, until};

/// An authority and agents.
pub(crate) struct Loopback {
    pub(crate) bench: Bench,
    /// The limit of file descriptors of new agents.
    pub(crate) descriptors: Option<u32>,
    agents: Vec<Child>,
}

/// An address on which nothing listens.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Loopback {
    /// An authority with credentials for agents m1 and m2 and for a coordinator.
    pub(crate) fn new() -> Self {
        let cluster = Self { bench: Bench::new(), descriptors: None, agents: Vec::new() };
        cluster.authority(&["init", "--agent", "m1", "--agent", "m2"]);
        cluster
    }

    pub(crate) fn authority(&self, args: &[&str]) {
        let mut command = self.bench.command(&["cluster"]);
        let output = command.args(args).args(["--dir", "pki"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn agent_credentials(&self, name: &str) -> PathBuf {
        self.bench.path().join("pki/agents").join(name)
    }

    pub(crate) fn coordinator_credentials(&self) -> PathBuf {
        self.bench.path().join("pki/coordinators/coordinator")
    }

    /// Starts an agent; returns its address.
    pub(crate) fn start(&mut self, name: &str, join: Option<SocketAddr>) -> SocketAddr {
        let credentials = self.agent_credentials(name);
        self.start_with(name, join, &["--credentials".as_ref(), &credentials])
    }

    pub(crate) fn start_with(
        &mut self,
        name: &str,
        join: Option<SocketAddr>,
        arguments: &[&Path],
    ) -> SocketAddr {
        let own = free_address();
        let mut command = Command::new(NETARIUM);
        if let Some(limit) = self.descriptors {
            command = Command::new("prlimit");
            command.arg(format!("--nofile={limit}")).arg(NETARIUM);
        }
        self.bench.prepare(&mut command);
        command.args(["agent", "--name", name, "--listen", &own.to_string()]).args(arguments);
        command.arg("--dir").arg(self.bench.path().join(format!("dir-{name}")));
        if let Some(join) = join {
            command.args(["--join", &join.to_string()]);
        }
        let log = std::fs::File::create(self.log(name)).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        self.agents.push(command.spawn().unwrap());
        until("the agent to listen", || self.printed(name).contains("listens").then_some(()));
        own
    }

    fn log(&self, name: &str) -> PathBuf {
        self.bench.path().join(format!("{name}.log"))
    }

    /// Output of an agent so far.
    pub(crate) fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    pub(crate) fn coordinator(&self, agent: SocketAddr, args: &[&str]) -> Command {
        let mut command = self.bench.command(args);
        command.args(["--cluster", &agent.to_string(), "--credentials"]);
        command.arg(self.coordinator_credentials());
        command
    }

    /// The status of the agent at this address and of all agents that it has found, from `cluster
    /// status`.
    pub(crate) fn status(&self, agent: SocketAddr) -> Option<Value> {
        let mut command = self.coordinator(agent, &["cluster", "status", "--json"]);
        serde_json::from_slice(&command.output().unwrap().stdout).ok()
    }

    /// Kills the most recently started agent.
    pub(crate) fn kill_last(&mut self) {
        let mut agent = self.agents.pop().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Waits until the agent at this address and another one have found each other.
    pub(crate) fn await_pair(&self, agent: SocketAddr) {
        until("two agents to see each other", || {
            let status = self.status(agent)?;
            let agents = status["agents"].as_array()?;
            let sees = |agent: &Value| agent["peers"].as_array().is_some_and(|p| p.len() == 1);
            (agents.len() == 2 && agents.iter().all(sees)).then_some(())
        });
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}
