//! The live view of a lab, in the lab's process.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use base::{ProgramId, Time};
use run::live::{FrameBuilder, ProgramState, Tap, live_span};
use run::record::{EventRecord, ProgramEnd};
use run::{Change, Recorder};

use super::lab::{Job, Running};
use super::message::FromLab;
use super::outbox::Outbox;
use crate::program::ProgramEvent;
use crate::{Error, Result};

/// Connects the live view of a lab to its recorder, and makes the channel non-blocking.
pub(super) fn start(
    job: &Job,
    channel: &UnixStream,
    recorder: &Recorder,
) -> Result<(Arc<Tap>, Outbox)> {
    let tap = Arc::new(Tap::new(FrameBuilder::new(&job.plan, live_span(job.plan.interval))));
    recorder.handle().connect(Arc::clone(&tap));
    channel.set_nonblocking(true).map_err(Error::Channel)?;
    Ok((tap, Outbox::new(channel.try_clone().map_err(Error::Channel)?)))
}

/// Sends the last frames and all other remaining messages.
pub(super) fn finish(tap: &Tap, mut outbox: Outbox, ended: Time) {
    if tap.is_watched() {
        for frame in tap.with(|builder| builder.finish(ended)) {
            outbox.frame(frame);
        }
    }
    outbox.finish();
}

impl Running {
    /// Starts sending frames, after the state before them, or stops.
    pub(super) fn watch(&mut self, is_watched: bool) {
        self.datapath.set_watched(is_watched);
        if is_watched {
            let state = self.tap.watch(self.now());
            self.outbox.send(&FromLab::State(Box::new(state)));
        } else {
            self.tap.unwatch();
        }
    }

    /// Sends the next frame, if it is due.
    pub(super) fn send_frame(&mut self, now: Time) {
        self.outbox.flush();
        if !self.tap.is_watched() {
            self.tap.with(|builder| builder.apply_changes(now));
        } else if let Some(frame) = self.tap.with(|builder| builder.poll(now)) {
            self.outbox.frame(frame);
        }
    }

    /// Adds an event to the record and to the live view.
    pub(super) fn record_event(&mut self, at: Time, text: String) {
        self.tap.with(|builder| builder.event(at, &text));
        self.events.push(EventRecord { at_s: at.as_secs_f64(), text, ..EventRecord::default() });
    }

    /// Passes a change of the network to the data path.
    pub(super) fn change_network(&self, change: Change) {
        self.tap.with(|builder| builder.change(&change));
        self.datapath.change(change);
    }

    pub(super) fn show_program(&self, event: &ProgramEvent, now: Time) {
        let (id, state, code): (ProgramId, _, _) = match *event {
            ProgramEvent::Started(id) => (id, ProgramState::Running, None),
            ProgramEvent::Ready(id) => (id, ProgramState::Ready, None),
            ProgramEvent::Ended { program, end, as_expected, .. } => {
                let state = if as_expected { ProgramState::Exited } else { ProgramState::Failed };
                let code = if let ProgramEnd::Exit(code) = end { Some(code) } else { None };
                (program, state, code)
            }
            ProgramEvent::Failed(id, _) => (id, ProgramState::Failed, None),
            ProgramEvent::OutputLimit(_) => return,
        };
        self.tap.with(|builder| builder.program(now, id.index() as u32, state, code));
    }
}
