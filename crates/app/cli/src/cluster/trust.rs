//! `cluster init`, `invite`, `enrol` and `revoke`: certificates of agents and coordinators.

use std::path::{Path, PathBuf};

use cluster_live::address::{credentials_dir, with_port};
use cluster_live::authority::Authority;
use cluster_live::credentials::{CA_FILE, Role};
use cluster_live::enrol::{self as enrolment, Host, PORT};
use serde_json::json;

use super::agent::host_name;
use super::failure;
use crate::args::cluster::{self as args, Enrol, Init, Invite, Revoke};
use crate::terminal::Terminal;
use crate::{Failure, Verdict};
use run::Exit;

/// Creates an authority if there is none, and certificates.
pub(crate) fn init(args: &Init, terminal: &Terminal) -> Verdict {
    let (dir, days) = (&args.signing.authority.dir, args.signing.days);
    let is_new = !dir.join(CA_FILE).exists();
    let mut coordinators = args.coordinators.clone();
    if is_new && coordinators.is_empty() {
        coordinators.push("coordinator".to_owned());
    }
    if !is_new && coordinators.is_empty() && args.agents.is_empty() {
        return Err(Failure::usage(format!("{} already has an authority", dir.display()))
            .help("use --agent NAME or --coordinator NAME for further certificates"));
    }
    let authority = Authority::open_or_create(dir, AUTHORITY_DAYS).map_err(|e| failure(&e))?;
    let named = |role, names: &[String]| -> Vec<(Role, String)> {
        names.iter().map(|name| (role, name.clone())).collect()
    };
    let all = [named(Role::Agent, &args.agents), named(Role::Coordinator, &coordinators)].concat();
    let mut made = Vec::new();
    for (role, name) in all {
        let folder = dir.join(format!("{role}s")).join(name.replace('*', "all"));
        let issued = authority.issue(role, &name, days).map_err(|e| failure(&e))?;
        issued.store(&folder).map_err(|e| failure(&e))?;
        made.push((role, name, folder));
    }
    if terminal.json {
        let certificates: Vec<_> = made
            .iter()
            .map(|(role, name, folder)| {
                json!({"role": role.to_string(), "name": name, "folder": folder})
            })
            .collect();
        let schema = "netarium.cluster.init/1";
        terminal.object(&json!({"schema": schema, "dir": dir, "certificates": certificates}))?;
    } else {
        terminal.data(instructions(dir, &made))?;
    }
    Ok(Exit::Ok)
}

/// Validity of the authority, longer than that of its certificates.
const AUTHORITY_DAYS: u32 = 3650;

/// Instructions for copying the certificates.
fn instructions(dir: &Path, made: &[(Role, String, PathBuf)]) -> String {
    let mut lines = vec![format!(
        "The authority is in {}. Keep it on this machine: its key can sign any certificate.",
        dir.display()
    )];
    for (role, name, folder) in made {
        let text = match role {
            Role::Agent => format!(
                "agent {name}: copy {} to that machine, then run\n  netarium agent --credentials \
                 FOLDER --listen ADDRESS --join ANOTHER-AGENT",
                folder.display()
            ),
            Role::Coordinator => format!(
                "coordinator {name}: copy {} to where labs are started, then run\n  netarium run \
                 LAB --cluster AGENT --credentials FOLDER",
                folder.display()
            ),
        };
        lines.push(text);
    }
    lines.push("To add agents without copying files, use `netarium cluster invite`.".to_owned());
    lines.join("\n")
}

fn role(role: args::Role) -> Role {
    match role {
        args::Role::Agent => Role::Agent,
        args::Role::Coordinator => Role::Coordinator,
    }
}

fn open(dir: &Path) -> Result<Authority, Failure> {
    Authority::open(dir).map_err(|e| {
        failure(&e)
            .help("create an authority with `netarium cluster init`, or give its folder with --dir")
    })
}

/// Revokes certificates, and writes the revocation list.
pub(crate) fn revoke(args: &Revoke, terminal: &Terminal) -> Verdict {
    let authority = open(&args.authority.dir)?;
    let files = authority.revoke(&args.name, args.role.map(role)).map_err(|e| failure(&e))?;
    if terminal.json {
        let schema = "netarium.cluster.revoke/1";
        terminal.object(&json!({"schema": schema, "name": args.name, "files": files}))?;
    } else {
        let list = files.first().map(|file| file.display().to_string()).unwrap_or_default();
        terminal.data(format!(
            "The certificates of {} are revoked. Copy {list} to the credentials of each agent and \
             coordinator.\nAgents reload it within seconds; restart them to close connections.",
            args.name
        ))?;
    }
    Ok(Exit::Ok)
}

/// Serves one enrolment.
pub(crate) fn invite(args: &Invite, terminal: &Terminal) -> Verdict {
    let role = role(args.role);
    let authority = open(&args.signing.authority.dir)?;
    let listen = with_port(&args.listen, PORT).map_err(|e| failure(&e))?;
    let host = Host { listen, public: args.host.clone() };
    let (days, lifetime) = (args.signing.days, args.expires.to_std());
    let invite = enrolment::Invite::open(authority, &host, role, args.name.clone(), days, lifetime)
        .map_err(|e| failure(&e))?;
    let invitation = invite.invitation().to_string();
    if terminal.json {
        let schema = "netarium.cluster.invite/1";
        terminal.object(&json!({"schema": schema, "invitation": invitation}))?;
    } else {
        let command = match role {
            Role::Agent => format!("netarium agent --join AGENT --invitation {invitation}"),
            Role::Coordinator => format!("netarium cluster enrol {invitation}"),
        };
        terminal.data(format!("Run on the new {role}, within {}:\n  {command}", args.expires))?;
    }
    let name = invite.serve().map_err(|e| failure(&e))?;
    terminal.note(format!("{role} {name} has enrolled"));
    Ok(Exit::Ok)
}

pub(crate) fn enrol(args: &Enrol, terminal: &Terminal) -> Verdict {
    let dir = credentials_dir(args.access.credentials.clone()).map_err(|e| failure(&e))?;
    let name = args.name.clone().unwrap_or_else(host_name);
    let own = enrolment::enrol(&args.invitation, &name, &dir).map_err(|e| failure(&e))?;
    terminal.note(format!(
        "enrolled as {}; the credentials are in {}",
        own.identity.role,
        dir.display()
    ));
    Ok(Exit::Ok)
}
