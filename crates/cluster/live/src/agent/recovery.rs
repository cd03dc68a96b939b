//! Runs the actions of [`Recovery`](cluster::recovery::Recovery) in separate threads: opening and
//! closing sessions takes seconds.

use base::Time;
use cluster::recovery::Action;

use super::notification::Notification;
use super::state::{Agent, Notify};
use super::{Event, now};
use crate::{Error, Result};

impl Agent {
    /// Starts the action that is due. Only an agent with addresses of others can probe them.
    pub(super) fn recover(&mut self, now: Time) {
        if self.options.join.is_empty() {
            return;
        }
        let Some(action) = self.recovery.next_action(now) else { return };
        let (bus, events) = (self.bus.clone(), self.events.clone());
        let is_probe = matches!(action, Action::Probe(_));
        let run = move || {
            let event = match action {
                Action::Probe(names) => Event::Probed(bus.probe(&names)),
                Action::Replace => Event::SessionReplaced(bus.replace()),
            };
            // It fails only if the agent has ended.
            drop(events.send(event));
        };
        if let Err(error) = std::thread::Builder::new().name("recovery".to_owned()).spawn(run) {
            let failed = Error::machine("start a thread")(error);
            let event =
                if is_probe { Event::Probed(None) } else { Event::SessionReplaced(Err(failed)) };
            drop(self.events.send(event));
        }
    }

    pub(super) fn on_session_replaced(&mut self, result: Result<()>, notify: Notify<'_>) {
        self.recovery.on_replaced(now(), result.is_ok());
        notify(match result {
            Ok(()) => Notification::SessionReplaced,
            Err(error) => Notification::SessionFailed { why: error.to_string() },
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use zenoh::Wait;

    use super::*;
    use crate::agent::{Allowed, Options, Stop};
    use crate::authority::Authority;
    use crate::credentials::Role;
    use crate::session::Bus;

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    struct Running {
        bus: Bus,
        notified: Receiver<Notification>,
        stop: Stop,
        thread: JoinHandle<Result<()>>,
    }

    impl Running {
        fn start(authority: &Authority, dir: &Path, name: &str, own: &str, join: &str) -> Self {
            let agent = Agent::open(Options {
                name: name.to_owned(),
                listen: vec![own.to_owned()],
                join: vec![join.to_owned()],
                credentials: authority.issue(Role::Agent, name, 1).unwrap(),
                trunk: None,
                ports: None,
                allowed: Allowed::default(),
                dir: dir.join(name),
                keep: 0,
                silence_timeout: cluster::detector::SILENCE_TIMEOUT,
                program: "/nonexistent".into(),
            })
            .unwrap();
            let (bus, stop) = (agent.bus.clone(), agent.stop());
            let (sender, notified) = channel();
            let run = move || agent.run(&mut |notification| drop(sender.send(notification)));
            Self { bus, notified, stop, thread: thread::spawn(run) }
        }

        /// Waits for these notifications, in any order; others are ignored.
        fn expect(&self, expected: &[Notification]) {
            let mut missing = expected.to_vec();
            while !missing.is_empty() {
                match self.notified.recv_timeout(TEST_TIMEOUT) {
                    Ok(next) => missing.retain(|expected| *expected != next),
                    Err(error) => panic!("{error}: {missing:?}"),
                }
            }
        }

        fn end(self) {
            self.stop.stop();
            self.thread.join().unwrap().unwrap();
        }
    }

    fn alive(name: &str) -> Notification {
        Notification::Alive { name: name.to_owned() }
    }

    fn lost(name: &str) -> Notification {
        Notification::Lost { name: name.to_owned() }
    }

    #[test]
    fn replaces_session_without_heartbeats_of_reachable_agent() {
        let authority = Authority::generate(1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [first, second] = ports
            .each_ref()
            .map(|port| port.local_addr().unwrap())
            .map(|at: SocketAddr| at.to_string());
        drop(ports);
        let a = Running::start(&authority, dir.path(), "a", &first, &second);
        let b = Running::start(&authority, dir.path(), "b", &second, &first);
        a.expect(&[alive("b")]);
        b.expect(&[alive("a")]);
        // A session that delivers nothing, while the other agent is reachable.
        a.bus.session().close().wait().unwrap();
        a.expect(&[lost("b")]);
        b.expect(&[lost("a")]);
        a.expect(&[Notification::SessionReplaced, alive("b")]);
        b.expect(&[alive("a")]);
        a.end();
        b.end();
    }
}
