//! Redirection of connections to a proxy with netfilter.
//!
//! The rules are in a table that belongs to the process that created it: when that process ends for
//! any reason, the kernel removes them (nftables' `owner` flag, Linux 5.12). The process is an
//! `nft` that waits for the end of its standard input, and therefore ends with this process.

use std::fmt::Write as _;
use std::io::{self, PipeReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use ipnet::IpNet;

use super::policy::Rule;
use super::{Error, Result};

/// Mark of the proxy's own connections.
pub const MARK: u32 = 0x004d_4354;

/// Property by which the rules exclude the proxy's own connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// By the mark [`MARK`].
    Marked,
    /// By their user ID.
    User(u32),
}

impl Own {
    /// The method that this process's privileges allow.
    ///
    /// # Errors
    /// If root lacks the privilege to set marks.
    pub fn detect() -> Result<Self> {
        use std::os::fd::AsFd;
        let socket = std::net::UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0));
        let socket = socket.map_err(|cause| Error::file("open a socket of", "127.0.0.1", cause))?;
        let (user, _) = sys::namespace::identity();
        match sys::socket::set_mark(socket.as_fd(), MARK) {
            Ok(()) => Ok(Self::Marked),
            // Root needs the mark: excluding its user ID would exclude its other programs too.
            Err(error) if error.is_denied() && user != 0 => Ok(Self::User(user)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Connections to be redirected, and the proxy's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    listen: SocketAddr,
    captured: Vec<(IpNet, (u16, u16))>,
    own: Own,
}

impl Redirection {
    /// Redirects connections that match any of `rules` to `listen`.
    ///
    /// # Errors
    /// Without rules, if a rule has a host name or another IP version than the listener, or if
    /// `listen` is neither a loopback address nor unspecified.
    pub fn new(listen: SocketAddr, rules: &[Rule], own: Own) -> Result<Self> {
        let address = listen.ip();
        if !address.is_loopback() && !address.is_unspecified() {
            let why = "the listener must be a loopback or unspecified address";
            let help = "listen at 127.0.0.1 or [::1] to redirect connections of this host, \
                        at 0.0.0.0 or [::] to redirect forwarded connections as well";
            return Err(Error::option(format!("--redirect {listen}"), why, help));
        }
        if rules.is_empty() {
            let why = "no --capture selects connections to redirect";
            let help = "add --capture CIDR[:PORT], such as --capture 10.2.0.0/16:443";
            return Err(Error::option(format!("--redirect {listen}"), why, help));
        }
        let mut captured = Vec::new();
        for rule in rules {
            let Some((network, ports)) = rule.addresses() else {
                let why = "netfilter matches addresses, not host names";
                let help = "write CIDR or CIDR:PORT, such as 10.2.0.0/16:443";
                return Err(Error::option(format!("--capture {rule}"), why, help));
            };
            let both = address.is_ipv6() && address.is_unspecified();
            if !both && matches!(network, IpNet::V6(_)) != address.is_ipv6() {
                let why = format!("--redirect {listen} has another IP version");
                let help = "use --redirect [::]:PORT for IPv4 and IPv6";
                return Err(Error::option(format!("--capture {rule}"), why, help));
            }
            captured.push((network, ports));
        }
        Ok(Self { listen, captured, own })
    }

    /// The address to which connections are redirected.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Property by which the proxy's own connections are recognised.
    pub fn own(&self) -> Own {
        self.own
    }

    fn table(&self) -> String {
        format!("netarium_mctcp_{}", self.listen.port())
    }

    /// The table in the syntax of `nft -f`. The kernel removes an `owned` table when
    /// its process ends.
    pub fn lines(&self, owned: bool) -> String {
        let (table, port) = (self.table(), self.listen.port());
        let mut text = format!("table inet {table} {{\n");
        if owned {
            text += "  flags owner\n";
        }
        let mut chain = |hook: &str, exception: &str| {
            let _ = writeln!(text, "  chain {hook} {{");
            let _ = writeln!(text, "    type nat hook {hook} priority -100; policy accept;");
            let _ = writeln!(text, "    {exception}");
            for (network, (first, last)) in &self.captured {
                let version = if matches!(network, IpNet::V4(_)) { "ip" } else { "ip6" };
                let ports =
                    if first == last { first.to_string() } else { format!("{first}-{last}") };
                let _ = writeln!(
                    text,
                    "    {version} daddr {network} tcp dport {ports} redirect to :{port}"
                );
            }
            text += "  }\n";
        };
        if self.listen.ip().is_unspecified() {
            chain("prerouting", "fib daddr type local return");
        }
        match self.own {
            Own::Marked => chain("output", &format!("meta mark {MARK:#010x} return")),
            Own::User(user) => chain("output", &format!("meta skuid {user} return")),
        }
        text + "}\n"
    }

    /// Installs the rules until the result is dropped, or this process ends.
    ///
    /// # Errors
    /// If `nft` is not installed, or rejects the rules.
    pub fn install(&self) -> Result<Installed> {
        let failed = |cause| Error::file("run", "nft", cause);
        let (output, written) = io::pipe().map_err(failed)?;
        let mut command = Command::new("nft");
        command.arg("--interactive").stdin(Stdio::piped());
        command.stdout(written.try_clone().map_err(failed)?).stderr(written);
        // Ctrl+C must reach only this process, which then removes the rules.
        command.process_group(0);
        let child = command.spawn().map_err(|cause| {
            Error::Netfilter(format!("--install needs `nft`, which cannot be started: {cause}"))
        })?;
        // Closes our copies of the child's pipe ends.
        drop(command);
        let mut installed = Installed { child, output };
        // One statement per line; the second one is answered after the first is executed.
        let statement = self.lines(true).replace('\n', ";");
        let table = self.table();
        // `nft` reports its own errors.
        if let Some(input) = &mut installed.child.stdin {
            let _ = writeln!(input, "{statement}\nlist table inet {table}");
        }
        loop {
            let line = read_line(&mut installed.output).map_err(failed)?;
            if line.is_empty() {
                let why = "nft ended before it installed the rules";
                return Err(Error::Netfilter(why.to_owned()));
            }
            if line.contains("rror") {
                return Err(Error::Netfilter(format!(
                    "nft rejected the rules: {}",
                    line.trim_end()
                )));
            }
            if line.contains(&table) {
                return Ok(installed);
            }
        }
    }
}

/// Reads one line and no further bytes; empty at the end of the output.
fn read_line(output: &mut PipeReader) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while output.read(&mut byte)? != 0 {
        line.push(byte[0]);
        if byte[0] == b'\n' {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Installed rules, removed when dropped.
#[derive(Debug)]
pub struct Installed {
    child: Child,
    /// This end stays open, because a write to a closed pipe would kill the process.
    output: PipeReader,
}

impl Drop for Installed {
    fn drop(&mut self) {
        // `nft` ends at the end of its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The original destination of a redirected connection.
///
/// # Errors
/// If it was not redirected.
pub fn destination(socket: BorrowedFd<'_>) -> Result<SocketAddr> {
    sys::socket::original_destination(socket)?
        .ok_or_else(|| Error::Netfilter("it was not redirected".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirection(listen: &str, rules: &[&str]) -> Result<Redirection> {
        let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Redirection::new(listen.parse().unwrap(), &rules, Own::Marked)
    }

    #[test]
    fn lines_contain_captured_networks_and_ports() {
        let text = redirection("127.0.0.1:4000", &["10.2.0.0/16", "10.3.0.1:80"]).unwrap();
        let text = text.lines(false);
        for part in [
            "table inet netarium_mctcp_4000 {",
            "type nat hook output priority -100;",
            "meta mark 0x004d4354 return",
            "ip daddr 10.2.0.0/16 tcp dport 1-65535 redirect to :4000",
            "ip daddr 10.3.0.1/32 tcp dport 80 redirect to :4000",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("owner") && !text.contains("prerouting"));
        let both = redirection("[::]:4000", &["10.2.0.0/16", "2001:db8::/32"]).unwrap();
        let text = both.lines(true);
        assert!(text.contains("flags owner") && text.contains("hook prerouting"));
        assert_eq!(text.matches("ip6 daddr 2001:db8::/32").count(), 2);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn rejects_rules_that_netfilter_cannot_express() {
        let why = |listen, rules: &[&str]| {
            let error = redirection(listen, rules).unwrap_err();
            assert!(error.is_usage());
            format!("{error} {}", error.help().unwrap())
        };
        assert!(why("192.0.2.1:4000", &["10.2.0.0/16"]).contains("0.0.0.0"));
        assert!(why("127.0.0.1:4000", &[]).contains("--capture"));
        assert!(why("127.0.0.1:4000", &["example.org"]).contains("not host names"));
        assert!(why("127.0.0.1:4000", &["2001:db8::/32"]).contains("[::]"));
    }
}
