//! Two hosts, two links, and the programs on them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use super::bench::NETARIUM;
pub(crate) use super::space::{Running, Space, json, until};

/// Addresses of the server, one per link.
pub(crate) const SERVERS: [&str; 4] = ["--server", "10.61.1.2", "--server", "10.61.2.2"];
pub(crate) const TARGET: &str = "10.99.0.1";

/// Both hosts, and a folder with a key and a file to fetch.
pub(crate) struct World {
    pub(crate) client: Space,
    pub(crate) server: Space,
    pub(crate) folder: TempDir,
    /// Hash of the file.
    pub(crate) hash: String,
}

/// The world of a test, which is left, with a message, if the host cannot create it.
macro_rules! requires_world {
    () => {{
        fn test() {}
        let name = super::bench::caller(&test);
        let Some(world) = super::world::World::new(name) else { return };
        world
    }};
}
pub(crate) use requires_world;

impl World {
    pub(crate) fn new(test: &str) -> Option<Self> {
        let client = Space::first(test, &["nft", "curl", "iperf3", "sha256sum"])?;
        let server = client.another()?;
        for link in [1, 2] {
            let (left, right) = (format!("c{link}"), format!("s{link}"));
            Space::connect(test, (&client, &left), (&server, &right))?;
            for (space, end, host) in [(&client, "c", 1), (&server, "s", 2)] {
                space.run(&format!(
                    "ip a a 10.61.{link}.{host}/24 dev {end}{link}; ip l s {end}{link} up; ip l s lo up; \
                     tc qdisc add dev {end}{link} root tbf rate 40mbit burst 20k limit 100k"
                ));
            }
        }
        server.run(&format!("ip a a {TARGET}/32 dev lo"));
        // Programs whose connections are redirected need a route.
        client.run("ip r a 10.99.0.0/16 via 10.61.1.2");
        let folder = TempDir::new().unwrap();
        let path = folder.path();
        fs::write(path.join("key"), "0123456789abcdef0123456789abcdef\n").unwrap();
        let make = "head -c 16000000 /dev/urandom > file; sha256sum < file | cut -d' ' -f1";
        let made = Command::new("sh").args(["-c", make]).current_dir(path).output().unwrap();
        let hash = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        Some(Self { client, server, folder, hash })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The option with the key file.
    pub(crate) fn key(&self) -> Vec<String> {
        vec!["--key-file".to_owned(), self.text("key")]
    }

    /// Starts a proxy or server and waits until it is ready.
    pub(crate) fn start(&self, at: &Space, subcommand: &str, words: &[&str]) -> Running {
        self.start_with(at, subcommand, words, &[])
    }

    /// The same, with a preceding command that sets limits.
    pub(crate) fn start_with(
        &self,
        at: &Space,
        subcommand: &str,
        words: &[&str],
        prefix: &[&str],
    ) -> Running {
        let socket = self.text(&format!("{subcommand}.sock"));
        let front = [NETARIUM, "mctcp", subcommand, "--json", "--status", &socket];
        let all = [prefix, &front, words].concat();
        Running::ready(&mut at.command(&all))
    }

    /// A server with a key, at both links.
    pub(crate) fn serve(&self, words: &[&str]) -> Running {
        let key = self.key();
        let mut all = vec!["--listen", "10.61.1.2", "--listen", "10.61.2.2"];
        all.extend(key.iter().map(String::as_str));
        self.start(&self.server, "serve", &[&all, words].concat())
    }

    /// A proxy with the server and its key.
    pub(crate) fn proxy(&self, words: &[&str]) -> Running {
        let key = self.key();
        let mut all = SERVERS.to_vec();
        all.extend(key.iter().map(String::as_str));
        self.start(&self.client, "proxy", &[&all, words].concat())
    }

    /// A web server with the file, at the target's port 80.
    pub(crate) fn web(&self) -> Running {
        let words = ["python3", "-m", "http.server", "80", "--bind", TARGET];
        let mut command = self.server.command(&words);
        command.current_dir(self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        until("the web server listens", || {
            self.server.run("ss -Hltn").contains(&format!("{TARGET}:80"))
        });
        running
    }

    /// Whether the client fetches the key from this base URL, with options before it.
    pub(crate) fn fetches_key(&self, from: &str) -> bool {
        let line = format!("curl --silent --max-time 60 {from}/key");
        self.client.try_run(&line).is_some_and(|text| text.len() == 33)
    }

    /// Fetches the file; prints its hash.
    pub(crate) fn fetch(&self, how: &str) -> Running {
        let line = format!(
            "curl --silent --show-error --max-time 60 {how} http://{TARGET}/file | sha256sum | \
             cut -d' ' -f1"
        );
        let mut command = self.client.command(&["sh", "-ec", &line]);
        Running(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn status(&self, subcommand: &str) -> Value {
        let socket = self.text(&format!("{subcommand}.sock"));
        json(&["mctcp", "status", "--json", &socket])["fronts"][0].clone()
    }

    /// Bytes that the client has received on each link so far. Interfaces keep them after the end
    /// of a connection, which the test may miss.
    fn received_by_link(&self) -> [u64; 2] {
        let text = self.client.run("cat /proc/net/dev");
        ["c1:", "c2:"].map(|device| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(device)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        })
    }

    /// Fetches the file, and waits until both links have carried a part of it.
    #[track_caller]
    pub(crate) fn fetch_over_both_links(&self, how: &str) -> Running {
        let before = self.received_by_link();
        let fetch = self.fetch(how);
        until("both links carry data", || {
            self.received_by_link().into_iter().zip(before).all(|(now, then)| now > then + 500_000)
        });
        fetch
    }
}
