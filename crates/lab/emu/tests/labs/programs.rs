//! Real programs, supervised inside a lab.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use base::{Bytes, NodeId, ProgramId, Span, Time};
use emu::enclosure::{self, Engine};
use emu::launch::{LabSide, Options, fork_lab};
use emu::program::{ProgramEvent, Supervisor};
use emu::registry::HostEntry;
use emu::uplink::Access;
use emu::users::Users;
use emu::{Error, Result};
use lab::plan::{Command, Plan, Program, Ready, Restart};
use run::RunFolder;
use run::record::ProgramEnd;
use sys::process::Exit;

use super::launching::unless_denied;
use super::sample;

pub(crate) const TESTS: &[super::Test] = &[
    ("programs_run_in_their_node", programs_run_in_their_node),
    ("server_is_ready_when_it_listens", server_is_ready_when_it_listens),
    ("waits_for_programs_that_start_with_lab", waits_for_programs_that_start_with_lab),
    ("detects_every_readiness_condition", detects_every_readiness_condition),
    ("stop_ends_descendants_of_program", stop_ends_descendants_of_program),
    ("kills_program_after_grace_time", kills_program_after_grace_time),
    ("restarts_failing_programs", restarts_failing_programs),
    ("names_programs_that_cannot_run", names_programs_that_cannot_run),
    ("programs_can_bind_ports_below_1024", programs_can_bind_ports_below_1024),
    ("daemon_continues_after_parent_exits", daemon_continues_after_parent_exits),
    ("names_resolve_only_inside_lab", names_resolve_only_inside_lab),
    ("uplink_reaches_network_outside_lab", uplink_reaches_network_outside_lab),
    ("exec_runs_command_inside_lab", exec_runs_command_inside_lab),
];

/// A lab with two hosts, its programs, and its clock.
struct Bench {
    plan: Plan,
    supervisor: Supervisor,
    origin: Instant,
    events: Vec<ProgramEvent>,
    folder: RunFolder,
}

impl Bench {
    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.origin.elapsed())
    }

    fn step(&mut self) {
        let events = self.supervisor.step(self.now());
        self.events.extend(events);
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Runs steps until `done`; a lab that hangs fails its test.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(self.origin.elapsed() < Duration::from_secs(60), "{:?}", self.events);
            self.step();
        }
    }

    fn until_over(&mut self) {
        self.run_until(|bench| bench.supervisor.is_over());
    }

    fn output(&self, program: usize) -> String {
        let name = &self.plan.programs[program].name;
        let path = self.folder.program(name).unwrap().join("stdout");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn end(&self, program: usize) -> Option<ProgramEnd> {
        self.supervisor.outcome(ProgramId::at(program)).end
    }
}

fn program(name: &str, line: &str) -> Program {
    Program {
        name: name.to_owned(),
        node: NodeId(1),
        command: Command::Shell(line.to_owned()),
        start: Time::ZERO,
        after: Vec::new(),
        ready: None,
        ready_timeout: Span::from_secs(60),
        restart: Restart::Never,
        env: std::collections::BTreeMap::new(),
        dir: None,
        user: None,
        service: false,
        exit: None,
        grace: Span::from_secs(5),
        privileged: false,
        output: Bytes::new(1_000_000),
    }
}

/// Runs `check` in a lab with these programs.
fn in_lab(test: &str, programs: Vec<Program>, check: impl FnOnce(&mut Bench)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let lab = fork_lab(&Options::new(test), |side| {
        let mut bench = bench(&side, programs, &path);
        check(&mut bench);
        0
    });
    let Some(mut lab) = unless_denied(test, lab) else { return };
    assert_eq!(lab.wait().unwrap(), Exit::Code(0), "{test}");
}

fn bench(side: &LabSide, programs: Vec<Program>, path: &Path) -> Bench {
    let mut plan = sample::star(2);
    plan.programs = programs;
    let notices = enclosure::install_names(&side.mounts, enclosure::hosts_text(&plan), None);
    assert!(notices.is_empty(), "{notices:?}");
    let open = sys::tun::is_openable().is_ok();
    let engine = if open { Engine::Tun } else { Engine::Packet };
    let enclosure = enclosure::build(&plan, &sample::FirstIface::of(&plan), engine).unwrap();
    let folder = RunFolder::create(path, "test").unwrap();
    let supervisor =
        Supervisor::new(&plan, &enclosure, &folder, path, &Users::default(), |_| true).unwrap();
    // The supervisor has its own descriptors of the namespaces; no packets are moved here.
    enclosure::close(enclosure.hosts);
    Bench { plan, supervisor, origin: Instant::now(), events: Vec::new(), folder }
}

fn programs_run_in_their_node() {
    let mut second = program("second", "cat /proc/net/fib_trie | grep -c 10.0.0.6; echo $WHO");
    second.env.insert("WHO".to_owned(), "second program".to_owned());
    second.after = vec![ProgramId(0)];
    second.node = NodeId(2);
    let first = program("first", "hostname; echo $$; ls /proc/self/fd | wc -l; ls /sys/class/net");
    in_lab("programs_run_in_their_node", vec![first, second], |bench| {
        bench.until_over();
        let first = bench.output(0);
        let lines: Vec<&str> = first.lines().collect();
        assert_eq!(lines[..3], ["h0", "2", "4"], "host, process number, files: {first}");
        assert!(lines.contains(&"eth0") && lines.contains(&"lo"), "{first}");
        let second = bench.output(1);
        assert!(!second.starts_with("0\n") && second.ends_with("second program\n"), "{second}");
        assert_eq!(bench.end(1), Some(ProgramEnd::Exit(0)));
        assert!(bench.supervisor.outcome(ProgramId(1)).as_expected);
    });
}

fn has_python() -> bool {
    let found = std::process::Command::new("python3").arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: python3 is not installed");
    }
    found
}

fn server_is_ready_when_it_listens() {
    if !has_python() {
        return;
    }
    let mut server = program("server", "sleep 0.2; exec python3 -m http.server 8080");
    server.ready = Some(Ready::Port(8080));
    server.service = true;
    let mut client =
        program("client", "python3 -c 'import socket; socket.create_connection((\"h0\", 8080))'");
    client.after = vec![ProgramId(0)];
    in_lab("server_is_ready_when_it_listens", vec![server, client], |bench| {
        bench.run_until(|bench| bench.supervisor.is_work_over());
        assert_eq!(bench.end(1), Some(ProgramEnd::Exit(0)), "{:?}", bench.events);
        let outcome = bench.supervisor.outcome(ProgramId(0)).clone();
        assert!(outcome.ready.unwrap() > outcome.started.unwrap() + Span::from_millis(200));
        assert!(!bench.supervisor.is_over());
        bench.supervisor.shutdown(bench.now());
        bench.until_over();
        assert_eq!(bench.end(0), Some(ProgramEnd::Stopped));
    });
}

fn waits_for_programs_that_start_with_lab() {
    let mut first = program("first", "sleep 0.1; touch up; sleep 100");
    first.ready = Some(Ready::File("up".into()));
    let mut second = program("second", "sleep 100");
    second.after = vec![ProgramId(0)];
    let mut later = program("later", "sleep 100");
    later.start = Time::ZERO + Span::from_secs(1000);
    let mut last = program("last", "sleep 100");
    last.after = vec![ProgramId(2)];
    let programs = vec![first, second, later, last];
    in_lab("waits_for_programs_that_start_with_lab", programs, |bench| {
        bench.step();
        assert!(!bench.supervisor.has_started(bench.now()));
        bench.run_until(|bench| bench.supervisor.has_started(bench.now()));
        let started = |at| bench.supervisor.outcome(ProgramId(at)).started.is_some();
        assert_eq!([0, 1, 2, 3].map(started), [true, true, false, false]);
        bench.supervisor.shutdown(bench.now());
        bench.until_over();
        assert!(bench.supervisor.has_started(bench.now()));
    });
}

fn detects_every_readiness_condition() {
    let conditions = [
        ("file", "sleep 0.1; touch here; sleep 100", Ready::File("here".into())),
        ("output", "echo not; sleep 0.1; printf 'is li'; sleep 0.1; echo stening", {
            Ready::Output("listening".to_owned())
        }),
        ("stderr", "echo up >&2; sleep 100", Ready::Output("up".to_owned())),
        ("after", "sleep 100", Ready::After(Span::from_millis(50))),
        ("command", "sleep 0.1; touch there; sleep 100", {
            Ready::Command("test -e there && test $(hostname) = h0".to_owned())
        }),
        (
            "udp",
            "exec python3 -c 'import socket,time; s=socket.socket(type=2); s.bind((\"\",5353)); time.sleep(99)'",
            Ready::UdpPort(5353),
        ),
    ];
    let programs = conditions.into_iter().filter(|(name, ..)| *name != "udp" || has_python());
    let programs: Vec<Program> = programs
        .map(|(name, line, ready)| Program { ready: Some(ready), ..program(name, line) })
        .collect();
    let count = programs.len();
    in_lab("detects_every_readiness_condition", programs, |bench| {
        let is_ready = |bench: &Bench, at| bench.supervisor.outcome(ProgramId::at(at)).ready;
        bench.run_until(|bench| (0..count).all(|at| is_ready(bench, at).is_some()));
        assert!(is_ready(bench, 3).unwrap() >= Time::ZERO + Span::from_millis(50));
        for at in 0..count {
            bench.supervisor.kill(ProgramId::at(at), bench.now());
        }
        bench.until_over();
        assert_eq!(bench.end(3), Some(ProgramEnd::Stopped));
    });
}

fn stop_ends_descendants_of_program() {
    // A child in its own session, a child whose parent has ended, and one that ignores SIGTERM.
    let line =
        "setsid sleep 1000 & (sleep 1001 &) ; sh -c 'trap \"\" TERM; sleep 1002' & echo up; wait";
    let mut forking = program("forking", line);
    forking.ready = Some(Ready::Output("up".to_owned()));
    forking.grace = Span::from_millis(300);
    in_lab("stop_ends_descendants_of_program", vec![forking], |bench| {
        bench.run_until(|bench| bench.supervisor.outcome(ProgramId(0)).ready.is_some());
        let sleepers = || {
            let folders = std::fs::read_dir("/proc").unwrap().flatten();
            let lines = folders.filter_map(|dir| std::fs::read(dir.path().join("cmdline")).ok());
            lines.filter(|line| line.starts_with(b"sleep\x00100")).count()
        };
        bench.run_until(|_| sleepers() == 3);
        bench.supervisor.stop(ProgramId(0), bench.now());
        bench.until_over();
        assert_eq!(sleepers(), 0);
        assert_eq!(bench.end(0), Some(ProgramEnd::Stopped));
    });
}

fn kills_program_after_grace_time() {
    let mut stubborn = program("stubborn", "trap '' TERM; echo up; while :; do sleep 0.05; done");
    stubborn.ready = Some(Ready::Output("up".to_owned()));
    stubborn.grace = Span::from_millis(200);
    in_lab("kills_program_after_grace_time", vec![stubborn], |bench| {
        bench.run_until(|bench| bench.supervisor.outcome(ProgramId(0)).ready.is_some());
        let stop_time = bench.now();
        bench.supervisor.stop(ProgramId(0), stop_time);
        // A start request while the program ends takes effect after its end.
        bench.supervisor.start(ProgramId(0), stop_time);
        bench.run_until(|bench| bench.supervisor.outcome(ProgramId(0)).restarts == 1);
        let outcome = bench.supervisor.outcome(ProgramId(0));
        assert!(outcome.ended.unwrap() >= stop_time + Span::from_millis(200));
        bench.supervisor.kill(ProgramId(0), bench.now());
        bench.until_over();
    });
}

fn restarts_failing_programs() {
    let line = "echo again | tee -a count; test $(wc -l < count) -ge 3";
    let mut failing = program("failing", line);
    failing.restart = Restart::OnFailure;
    let mut eager = program("eager", "echo x");
    eager.restart = Restart::Always;
    in_lab("restarts_failing_programs", vec![failing, eager], |bench| {
        bench.run_until(|bench| bench.end(0) == Some(ProgramEnd::Exit(0)));
        assert_eq!(bench.output(0), "again\nagain\nagain\n");
        assert_eq!(bench.supervisor.outcome(ProgramId(0)).restarts, 2);
        bench.run_until(|bench| bench.supervisor.outcome(ProgramId(1)).restarts >= 2);
        bench.supervisor.shutdown(bench.now());
        bench.until_over();
        assert!(bench.supervisor.outcome(ProgramId(1)).as_expected);
    });
}

fn names_programs_that_cannot_run() {
    let exec = |name: &str, word: &str| Program {
        command: Command::Exec(vec![word.to_owned()]),
        ..program(name, "")
    };
    let mut nowhere = program("nowhere", "true");
    nowhere.dir = Some("/no/such/folder".into());
    let mut early = program("early", "echo no luck >&2; exit 3");
    early.ready = Some(Ready::Port(9));
    let mut late = program("late", "sleep 100");
    late.ready = Some(Ready::Port(9));
    late.ready_timeout = Span::from_millis(100);
    let missing = program("missing", "no-such-command");
    let programs = vec![
        exec("none", "no-such-program"),
        exec("data", "/etc/passwd"),
        nowhere,
        early,
        late,
        missing,
    ];
    in_lab("names_programs_that_cannot_run", programs, |bench| {
        let failures = |bench: &Bench| -> Vec<String> {
            let mut list: Vec<_> = bench.events.iter().filter_map(failure).collect();
            list.sort_by_key(|(program, _)| *program);
            list.into_iter().map(|(_, text)| text).collect()
        };
        bench.run_until(|bench| failures(bench).len() == 5);
        let texts = failures(bench);
        assert_eq!(texts[0], "program none: `no-such-program` was not found");
        assert!(texts[1].contains("cannot be executed: Permission denied"), "{}", texts[1]);
        assert!(texts[2].contains("cannot enter /no/such/folder"), "{}", texts[2]);
        let early = "program early ended (status 3) before it was ready (TCP port 9)";
        assert_eq!(texts[3], format!("{early}; last output: no luck"));
        assert_eq!(texts[4], "program late was not ready (TCP port 9) after 100 ms");
        bench.supervisor.shutdown(bench.now());
        bench.until_over();
        assert!(!bench.supervisor.outcome(ProgramId(5)).as_expected, "a shell's status 127");
    });
}

fn failure(event: &ProgramEvent) -> Option<(ProgramId, String)> {
    match event {
        ProgramEvent::Failed(program, error) => Some((*program, error.to_string())),
        _ => None,
    }
}

fn programs_can_bind_ports_below_1024() {
    if !has_python() {
        return;
    }
    let line = "exec python3 -c 'import socket; socket.socket().bind((\"10.0.0.2\", 80))'";
    in_lab("programs_can_bind_ports_below_1024", vec![program("low", line)], |bench| {
        bench.until_over();
        let errors = bench.supervisor.last_stderr(ProgramId(0));
        assert_eq!(bench.end(0), Some(ProgramEnd::Exit(0)), "{errors:?}");
    });
}

fn daemon_continues_after_parent_exits() {
    let mut daemon = program("daemon", "(sleep 0.3; echo done) & exit 0");
    daemon.service = true;
    // The supervisor may notice its end late.
    let plain = program("plain", "(sleep 10; echo done) & exit 0");
    in_lab("daemon_continues_after_parent_exits", vec![daemon, plain], |bench| {
        bench.until_over();
        assert_eq!((bench.output(0).as_str(), bench.output(1).as_str()), ("done\n", ""));
    });
}

fn names_resolve_only_inside_lab() {
    let before = std::fs::read("/etc/hosts").ok();
    let line = "getent hosts h1; getent ahosts h0 | head -n 1; ping -c 1 -W 10 h0 > /dev/null";
    in_lab("names_resolve_only_inside_lab", vec![program("names", line)], |bench| {
        bench.until_over();
        let text = bench.output(0);
        assert!(text.contains("h1") && text.contains("10.0.0.2"), "{text}");
        // The node's own kernel answers: ICMP works without more privileges.
        let found = bench.end(0) != Some(ProgramEnd::Exit(127));
        assert!(!found || bench.end(0) == Some(ProgramEnd::Exit(0)), "{:?}", bench.end(0));
    });
    assert_eq!(std::fs::read("/etc/hosts").ok(), before);
}

/// A host of the lab reaches a server on an address of the host system.
fn uplink_reaches_network_outside_lab() {
    let test = "uplink_reaches_network_outside_lab";
    // The source address of packets to the outside; no packet is sent.
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = probe.connect("192.0.2.1:9").and_then(|()| probe.local_addr());
    let Some(own) = own.ok().filter(|own| !own.ip().is_loopback()) else {
        println!("SKIPPED {test}: this machine has no network");
        return;
    };
    let server = std::net::TcpListener::bind((own.ip(), 0)).unwrap();
    let to = server.local_addr().unwrap();
    let options = Options { uplink: true, ..Options::new("x") };
    let lab = fork_lab(&options, |side| {
        let mut plan = sample::star(1);
        plan.uplink = lab::plan::Uplink::Hosts;
        let open = sys::tun::is_openable().is_ok();
        let engine = if open { Engine::Tun } else { Engine::Packet };
        let enclosure = enclosure::build(&plan, &sample::FirstIface::of(&plan), engine).unwrap();
        let host = &enclosure.hosts[0];
        let mut uplink = side.uplink.unwrap();
        match uplink.connect(host, "h0", Access::default()) {
            // pasta needs the device itself.
            Err(Error::Uplink { .. }) if !open => return 4,
            result => result.unwrap(),
        }
        let net = std::os::fd::AsFd::as_fd(&host.netns);
        let stream = || std::net::TcpStream::connect_timeout(&to, Duration::from_secs(60));
        let mut stream = sys::namespace::in_net(net, stream).unwrap().unwrap();
        stream.write_all(b"hello").unwrap();
        // Wait for the answer, so that pasta has forwarded both directions.
        stream.read_exact(&mut [0; 2]).map_or(1, |()| 0)
    });
    let lab = match lab {
        Err(Error::NoPasta) => {
            println!("SKIPPED {test}: pasta is not installed");
            return;
        }
        lab => lab,
    };
    let Some(mut lab) = unless_denied(test, lab) else { return };
    server.set_nonblocking(true).unwrap();
    let mut connection = None;
    while connection.is_none() && lab.try_wait().unwrap().is_none() {
        connection = server.accept().ok();
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Some((mut stream, _)) = connection {
        stream.set_nonblocking(false).unwrap();
        let mut text = [0; 5];
        stream.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        stream.write_all(b"ok").unwrap();
    }
    match lab.wait().unwrap() {
        Exit::Code(4) => println!("SKIPPED {test}: {} is closed", sys::tun::DEVICE),
        exit => assert_eq!(exit, Exit::Code(0)),
    }
}

fn exec_runs_command_inside_lab() {
    use std::os::fd::AsRawFd;

    let lab = fork_lab(&Options::new("x"), |mut side| {
        let plan = sample::star(2);
        let hosts = enclosure::hosts_text(&plan);
        assert!(enclosure::install_names(&side.mounts, hosts, None).is_empty());
        let open = sys::tun::is_openable().is_ok();
        let engine = if open { Engine::Tun } else { Engine::Packet };
        let enclosure = enclosure::build(&plan, &sample::FirstIface::of(&plan), engine).unwrap();
        let net = enclosure.hosts[1].netns.as_raw_fd();
        side.channel.write_all(format!("{net}\n").as_bytes()).unwrap();
        let mut rest = Vec::new();
        side.channel.read_to_end(&mut rest).map_or(1, |_| 0)
    });
    let Some(mut lab) = unless_denied("exec_runs_command_inside_lab", lab) else { return };
    let mut line = String::new();
    let mut channel = std::io::BufReader::new(lab.channel());
    std::io::BufRead::read_line(&mut channel, &mut line).unwrap();
    let net: i32 = line.trim().parse().unwrap();
    let run = |line: &'static str| -> Result<i32> {
        let pid = lab.pid();
        let work = move || {
            let command = ["/bin/sh".into(), "-c".into(), line.into()];
            let host = HostEntry { net, mounts: None, user: None };
            let result = emu::launch::exec_in(pid, &host, "h1", &command, &[]);
            result.unwrap_or_else(|error| {
                println!("{error}");
                99
            })
        };
        Ok(sys::process::Child::of(sys::process::fork(work)?)?.wait()?.code())
    };
    // Inside the lab: its network, host name, processes and hosts file.
    let inside = "grep -q 10.0.0.6 /proc/net/fib_trie && test $(hostname) = h1 && \
                  test $(tr '\\0' x < /proc/1/cmdline | wc -c) -gt 0 && grep -q h0 /etc/hosts && \
                  test -d /sys/class/net/eth0";
    assert_eq!(run(inside).unwrap(), 0);
    assert_eq!(run("exit 7").unwrap(), 7);
    assert_eq!(run("kill -9 $$").unwrap(), 137);
    assert_eq!(run("cd /no/such").unwrap(), 2);
    lab.end();
    assert_eq!(lab.wait().unwrap(), Exit::Code(0));
    let host = HostEntry { net, mounts: None, user: None };
    let gone = emu::launch::exec_in(lab.pid(), &host, "h1", &["true".into()], &[]);
    assert!(matches!(gone, Err(Error::NotALab(_))), "{gone:?}");
}
