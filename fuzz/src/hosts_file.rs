//! Any text as a hosts file of a cluster: agents have addresses that can be read again, machines
//! have different names and valid resources, and errors have the file and a line of it.

use placement::Error;
use placement::hosts::{Hosts, PORT, with_port};

pub(crate) fn target(text: &str) {
    let hosts = match Hosts::parse("hosts.toml", text) {
        Ok(hosts) => hosts,
        Err(Error::HostsFile { file, line, what }) => {
            assert!(file == "hosts.toml" && !what.is_empty());
            assert!((1..=text.matches('\n').count() + 1).contains(&line), "line {line}");
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    for agent in &hosts.agents {
        assert_eq!(with_port(agent, PORT).as_ref(), Ok(agent));
    }
    for pair in hosts.machines.windows(2) {
        assert!(pair[0].name < pair[1].name);
    }
    for machine in &hosts.machines {
        assert!(machine.resources.cores.is_finite() && machine.resources.cores > 0.0);
    }
}
