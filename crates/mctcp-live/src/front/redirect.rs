//! Connections that netfilter leads to a proxy which their programs know nothing of.
//!
//! The rules sit in a table that belongs to the process which made it: when it ends, however it
//! ends, the kernel removes them (nftables' `owner` flag, Linux 5.12). That process is an `nft`
//! that waits for its standard input to end, and it ends with us.

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

/// How the proxy's own connections are told from those that it is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// By [`MARK`].
    Marked,
    /// By their user.
    User(u32),
}

impl Own {
    /// The way that this process may go.
    ///
    /// # Errors
    /// For a superuser who may not mark.
    pub fn detect() -> Result<Self> {
        use std::os::fd::AsFd;
        let socket = std::net::UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0));
        let socket = socket.map_err(|cause| Error::file("open a socket of", "127.0.0.1", cause))?;
        let (user, _) = sys::namespace::identity();
        match sys::socket::set_mark(socket.as_fd(), MARK) {
            Ok(()) => Ok(Self::Marked),
            // Other programs of the superuser are to be taken, too.
            Err(error) if error.is_denied() && user != 0 => Ok(Self::User(user)),
            Err(error) => Err(error.into()),
        }
    }
}

/// What is to be redirected, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    listen: SocketAddr,
    captured: Vec<(IpNet, (u16, u16))>,
    own: Own,
}

impl Redirection {
    /// Connections to any of `rules` are to come to `listen`.
    ///
    /// # Errors
    /// If there is no rule, one is not of addresses or not of the listener's version of IP, or
    /// `listen` is neither a loopback address nor unspecified.
    pub fn new(listen: SocketAddr, rules: &[Rule], own: Own) -> Result<Self> {
        let address = listen.ip();
        if !address.is_loopback() && !address.is_unspecified() {
            let why = "netfilter redirects to loopback, or to wherever connections come in";
            let help = "listen at 127.0.0.1 or [::1] for this machine's own connections, at \
                        0.0.0.0 or [::] for those that it forwards, too";
            return Err(Error::option(format!("--redirect {listen}"), why, help));
        }
        if rules.is_empty() {
            let why = "it does not say which connections to take";
            let help = "add --capture CIDR[:PORT], such as --capture 10.2.0.0/16:443";
            return Err(Error::option(format!("--redirect {listen}"), why, help));
        }
        let mut captured = Vec::new();
        for rule in rules {
            let Some((network, ports)) = rule.addresses() else {
                let why = "netfilter knows addresses only";
                let help = "write CIDR or CIDR:PORT, such as 10.2.0.0/16:443";
                return Err(Error::option(format!("--capture {rule}"), why, help));
            };
            let both = address.is_ipv6() && address.is_unspecified();
            if !both && matches!(network, IpNet::V6(_)) != address.is_ipv6() {
                let why = format!("--redirect {listen} is of the other version of IP");
                let help = "--redirect [::]:PORT takes both";
                return Err(Error::option(format!("--capture {rule}"), why, help));
            }
            captured.push((network, ports));
        }
        Ok(Self { listen, captured, own })
    }

    /// Where connections are led to.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// How the proxy's own connections are told from others.
    pub fn own(&self) -> Own {
        self.own
    }

    fn table(&self) -> String {
        format!("netarium_mctcp_{}", self.listen.port())
    }

    /// The table, as `nft -f` reads it. One that is `owned` goes with the process that made it.
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

    /// Puts the rules in force for as long as what it answers lives, and no longer than this
    /// process.
    ///
    /// # Errors
    /// If there is no `nft`, or it refuses.
    pub fn install(&self) -> Result<Installed> {
        let failed = |cause| Error::file("talk to", "nft", cause);
        let (output, written) = io::pipe().map_err(failed)?;
        let mut command = Command::new("nft");
        command.arg("--interactive").stdin(Stdio::piped());
        command.stdout(written.try_clone().map_err(failed)?).stderr(written);
        // A keyboard's interrupt is for us: the rules go when we do.
        command.process_group(0);
        let child = command.spawn().map_err(|cause| {
            Error::Netfilter(format!("--install needs `nft`, which cannot be started: {cause}"))
        })?;
        // Its ends of the pipe are the child's alone now.
        drop(command);
        let mut installed = Installed { child, output };
        // A statement a line; the second is answered once the first is done.
        let statement = self.lines(true).replace('\n', ";");
        let table = self.table();
        // What it cannot take it says.
        if let Some(input) = &mut installed.child.stdin {
            let _ = writeln!(input, "{statement}\nlist table inet {table}");
        }
        loop {
            let line = read_line(&mut installed.output).map_err(failed)?;
            if line.is_empty() {
                let why = "nft ended before the rules were in force";
                return Err(Error::Netfilter(why.to_owned()));
            }
            if line.contains("rror") {
                return Err(Error::Netfilter(format!(
                    "nft refuses the rules: {}",
                    line.trim_end()
                )));
            }
            if line.contains(&table) {
                return Ok(installed);
            }
        }
    }
}

/// Reads up to the end of a line and no further; nothing at the end of all.
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

/// Rules that are in force until this is dropped.
#[derive(Debug)]
pub struct Installed {
    child: Child,
    /// Whoever writes to a pipe that nobody reads dies.
    output: PipeReader,
}

impl Drop for Installed {
    fn drop(&mut self) {
        // Its input ends, and so does it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Where a connection that came to the proxy was meant to go.
///
/// # Errors
/// If nobody redirected it.
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
    fn lines_name_what_is_captured() {
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
    fn what_netfilter_cannot_do_is_said() {
        let why = |listen, rules: &[&str]| {
            let error = redirection(listen, rules).unwrap_err();
            assert!(error.is_usage());
            format!("{error} {}", error.help().unwrap())
        };
        assert!(why("192.0.2.1:4000", &["10.2.0.0/16"]).contains("0.0.0.0"));
        assert!(why("127.0.0.1:4000", &[]).contains("--capture"));
        assert!(why("127.0.0.1:4000", &["example.org"]).contains("addresses only"));
        assert!(why("127.0.0.1:4000", &["2001:db8::/32"]).contains("[::]"));
    }
}
