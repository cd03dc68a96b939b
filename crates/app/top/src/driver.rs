//! Connects an [`App`] to a terminal and a lab.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use emu::control::{self, WatchedRun};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use run::RunFolder;
use run::live::{End, FinishedRun, Hello, Message, Request};

use crate::App;
use crate::app::Action;

/// Interval of checks for messages and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{0}")]
    Run(#[from] run::Error),
    #[error("{0}")]
    Lab(String),
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// The reason of the end of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Quit,
    /// `stop` is set.
    Stopped,
}

/// Messages of other threads to the view.
enum Update {
    Message(Message),
    Lost(String),
}

/// Shows a run at the terminal until the user quits or `stop` is set. Restores the terminal also
/// after an error and at a panic.
///
/// # Errors
/// If the lab or the run folder cannot be read, or the terminal cannot be used.
pub fn show(run: &WatchedRun, has_color: bool, stop: &AtomicBool) -> Result<Ended, Error> {
    let (sender, updates) = channel();
    let mut app = if let Some((hello, feed)) = connect(run)? {
        let (sender, folder) = (sender.clone(), run.folder.clone());
        std::thread::spawn(move || receive(feed, &folder, &sender));
        App::new(*hello, has_color)
    } else {
        let run = FinishedRun::read(&RunFolder::open(&run.folder)?)?;
        App::finished(run, has_color)
    };
    let mut terminal = match ratatui::try_init() {
        Ok(terminal) => terminal,
        Err(error) => {
            restore();
            return Err(Error::Terminal(error));
        }
    };
    let ended = view(&mut app, &mut terminal, run, (&sender, &updates), stop);
    restore();
    Ok(ended?)
}

/// Restores the terminal: leaves the alternate screen, shows the cursor.
pub fn restore() {
    use ratatui::crossterm::{cursor::Show, execute};
    // If the terminal is gone, there is nothing to restore.
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), Show);
}

type Feed = BufReader<UnixStream>;

/// The connection to the lab, after its first message; `None` if it is not running.
fn connect(run: &WatchedRun) -> Result<Option<(Box<Hello>, Feed)>, Error> {
    let Some(socket) = &run.socket else { return Ok(None) };
    let mut feed = match control::watch(socket) {
        Ok(stream) => BufReader::new(stream),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::Lab(format!("cannot connect to the lab: {error}"))),
    };
    let mut line = String::new();
    // The lab may end at this moment.
    if feed.read_line(&mut line).unwrap_or_default() == 0 {
        return Ok(None);
    }
    let hello = control::hello(&line, run.read_only).map_err(|(_, why)| Error::Lab(why))?;
    Ok(Some((hello, feed)))
}

/// Passes on messages until the lab ends.
fn receive(feed: Feed, folder: &Path, sender: &Sender<Update>) {
    let mut has_ended = false;
    for line in feed.lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str(&line) else { continue };
        has_ended |= matches!(message, Message::End(_));
        if sender.send(Update::Message(message)).is_err() {
            return;
        }
    }
    if !has_ended {
        // The supervising process ended without a message.
        let update = match End::read(folder) {
            Ok(end) => Update::Message(Message::End(end)),
            Err(why) => Update::Lost(format!("the lab ended without a result: {why}")),
        };
        let _ = sender.send(update);
    }
}

fn view(
    app: &mut App,
    terminal: &mut DefaultTerminal,
    run: &WatchedRun,
    (sender, updates): (&Sender<Update>, &Receiver<Update>),
    stop: &AtomicBool,
) -> io::Result<Ended> {
    let mut has_changed = true;
    loop {
        while let Ok(update) = updates.try_recv() {
            has_changed = true;
            match update {
                Update::Message(message) => app.receive(message),
                Update::Lost(why) => app.lost(why),
            }
        }
        // A change of the size before the first event is read causes no event.
        let size = terminal.size()?;
        let size = (size.width, size.height);
        has_changed |= app.size != size;
        if std::mem::take(&mut has_changed) {
            app.size = size;
            terminal.draw(|frame| crate::draw::draw(app, frame))?;
        }
        if stop.load(Ordering::SeqCst) {
            return Ok(Ended::Stopped);
        }
        let mut timeout = POLL_INTERVAL;
        while event::poll(timeout)? {
            timeout = Duration::ZERO;
            has_changed = true;
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match app.key(key) {
                Action::Quit => return Ok(Ended::Quit),
                Action::Send(request) => send(run.clone(), request, sender.clone()),
                Action::Save(name) => {
                    let file = File::create_new(&name);
                    let text = app.changes_file();
                    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
                    app.saved(&name, written);
                }
                Action::None => {}
            }
        }
    }
}

/// Sends a request in another thread, which passes on the answer.
fn send(run: WatchedRun, request: Request, sender: Sender<Update>) {
    std::thread::spawn(move || {
        let answer = control::answer(&run, request);
        let _ = sender.send(Update::Message(Message::Answer(answer)));
    });
}
