//! The socket of a run on the virtual clock, with the protocol of a running lab.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emu::control::{Answer, Finding, Request, Server};
use run::RunRecord;
use run::live::{ClockState, End, Message};
use rustix::event::{PollFd, PollFlags, Timespec};
use sim::live::{Action, Done, Live, Refusal, Reply};
use tempfile::TempDir;

/// Maximum delay of a request or an answer.
const POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// Serves a run until it ends.
#[derive(Debug)]
pub struct Simulation {
    /// A folder of this user with the socket.
    folder: TempDir,
    end: Sender<Option<End>>,
    thread: JoinHandle<()>,
}

impl Simulation {
    /// Starts a thread that serves `live`.
    ///
    /// # Errors
    /// If the socket or the thread cannot be made.
    pub fn start(live: Arc<Live>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("netarium-").tempdir()?;
        let server = Server::bind(folder.path().join("run.sock"))?;
        let (end, ended) = channel();
        let serve = move || Feed::new(server, live).serve(&ended);
        let thread = std::thread::Builder::new().name("live view".to_owned()).spawn(serve)?;
        Ok(Self { folder, end, thread })
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("run.sock")
    }

    /// Sends the end of the run to watchers; without a record, the run has failed.
    pub fn end(self, record: Option<&RunRecord>) {
        let _ = self.end.send(record.and_then(End::of));
        let _ = self.thread.join();
    }
}

struct Feed {
    server: Server,
    live: Arc<Live>,
    /// Requests that the run has not answered yet.
    pending: Vec<(u64, Receiver<Reply>)>,
    /// The last state of the clock that was sent to all watchers.
    shown: Option<ClockState>,
    next_frame: Instant,
}

impl Feed {
    fn new(server: Server, live: Arc<Live>) -> Self {
        Self { server, live, pending: Vec::new(), shown: None, next_frame: Instant::now() }
    }

    fn serve(mut self, ended: &Receiver<Option<End>>) {
        loop {
            self.wait();
            for (id, request) in self.server.receive() {
                self.handle(id, request);
            }
            self.answer();
            self.live.watch(self.server.has_watchers());
            self.show();
            match ended.try_recv() {
                Err(TryRecvError::Empty) => {}
                Ok(Some(end)) => {
                    for frame in self.live.last() {
                        self.server.frame(&frame);
                    }
                    self.server.end(end);
                    return;
                }
                Ok(None) | Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    fn wait(&self) {
        let files = self.server.files();
        let mut fds: Vec<_> = files.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An error only omits the wait.
        let _ = rustix::event::poll(&mut fds, Some(&POLL_TIMEOUT));
    }

    fn handle(&mut self, id: u64, request: Request) {
        let action = match request {
            Request::Watch => return self.watch(id),
            Request::Clock(change) => {
                let at_s = self.live.change(change).as_secs_f64();
                let (events, warnings, at_events) = Default::default();
                let answer = Answer::Done { at_s, events, warnings, at_events };
                return self.server.answer(id, &answer);
            }
            Request::Set(fields) => Action::Set(fields),
            Request::Mark(text) => Action::Mark(text),
        };
        self.pending.push((id, self.live.request(action)));
    }

    fn watch(&mut self, id: u64) {
        let Some(hello) = self.live.hello() else {
            let why = "the run has not started".to_owned();
            return self.server.answer(id, &Answer::Refused { why });
        };
        self.server.watch(id, &Message::Hello(Box::new(hello)));
        self.server.state(&self.live.first());
        // A new watcher has no state of the clock.
        self.shown = None;
    }

    /// Answers requests that the run has handled.
    fn answer(&mut self) {
        let server = &mut self.server;
        self.pending.retain(|(id, replies)| match replies.try_recv() {
            Ok(reply) => {
                server.answer(*id, &answer_of(reply));
                false
            }
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => {
                server.answer(*id, &Answer::Refused { why: "the run has ended".to_owned() });
                false
            }
        });
    }

    /// Sends the next frame and the state of the clock, if they are due.
    fn show(&mut self) {
        let state = self.live.clock();
        let is_paced = |shown: ClockState| {
            (shown.is_paused, shown.permille) == (state.is_paused, state.permille)
        };
        if self.shown.is_some_and(is_paced) && Instant::now() < self.next_frame {
            return;
        }
        self.next_frame = Instant::now() + FRAME_INTERVAL;
        if let Some(frame) = self.live.frame() {
            self.server.frame(&frame);
        }
        if self.shown != Some(state) {
            self.server.clock(state);
            self.shown = Some(state);
        }
    }
}

fn answer_of(reply: Reply) -> Answer {
    match reply {
        Ok(Done { at, events, warnings, at_events }) => {
            let warnings = warnings.as_ref().map(Finding::all).unwrap_or_default();
            Answer::Done { at_s: at.as_secs_f64(), events, warnings, at_events }
        }
        Err(Refusal::Wrong(found)) => Answer::Wrong { errors: Finding::all(&found) },
        Err(Refusal::Impossible(why)) => Answer::Refused { why: why.to_owned() },
    }
}
