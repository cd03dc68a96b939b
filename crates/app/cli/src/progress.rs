//! The progress line of a run.

use std::time::Duration;

use emu::run::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::foreign_text::visible;

pub(crate) struct Line {
    bar: ProgressBar,
}

impl Line {
    /// A line on stderr, or an invisible one.
    pub(crate) fn new(visible: bool) -> Self {
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:24} {wide_msg}");
        let style = style.expect("the template is valid");
        bar.set_style(style);
        Self { bar }
    }

    /// Shows the progress of a run on the wall clock.
    pub(crate) fn show(&self, progress: &Progress) {
        let whole = progress.duration.as_nanos();
        let now = progress.now.as_nanos().min(whole);
        self.bar.set_length(whole);
        self.bar.set_position(now);
        self.bar.set_message(text(progress));
    }

    /// Shows the progress of a run on the virtual clock.
    pub(crate) fn show_virtual(&self, progress: &sim::run::Progress) {
        let whole = progress.duration.as_nanos();
        self.bar.set_length(whole);
        self.bar.set_position(progress.now.as_nanos().min(whole));
        self.bar.set_message(virtual_text(progress));
    }

    /// Shows the progress of parallel labs, which began `since`.
    pub(crate) fn show_labs(
        &self,
        running: usize,
        total: usize,
        since: Option<Duration>,
        max_duration: base::Span,
    ) {
        let (now, whole) = (since.unwrap_or_default().as_secs_f64(), max_duration.as_secs_f64());
        self.bar.set_length(max_duration.as_nanos());
        self.bar.set_position((now.min(whole) * 1e9) as u64);
        self.bar.set_message(match since {
            None => format!("building {total} labs"),
            Some(_) => format!("{now:.1} of {whole:.1} s, {running} of {total} labs running"),
        });
    }

    pub(crate) fn show_sweep(&self, progress: &sim::sweep::Progress) {
        self.bar.set_length(progress.total as u64);
        self.bar.set_position(progress.finished as u64);
        let before = match progress.resumed {
            0 => String::new(),
            resumed => format!(" ({resumed} already finished)"),
        };
        let left = eta(progress.left());
        let (finished, total) = (progress.finished, progress.total);
        self.bar.set_message(format!("{finished}/{total}{before}, ETA {left}"));
    }

    pub(crate) fn show_collected(&self, status: &collector_live::board::Status) {
        let up =
            status.peerings.iter().filter(|(_, state, _)| *state == collector::State::Established);
        self.bar.set_message(format!(
            "{} packets, {} messages, {} of {} peers established, {} missing bytes",
            status.frames.frames,
            status.messages,
            up.count(),
            status.peerings.len(),
            status.streams.missing_bytes,
        ));
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn text(progress: &Progress) -> String {
    let whole = progress.duration.as_nanos();
    let left = whole.saturating_sub(progress.now.as_nanos());
    let mut text = format!(
        "{:.1} of {:.1} s, max {} left, {} packets",
        progress.now.as_secs_f64(),
        progress.duration.as_secs_f64(),
        indicatif::HumanDuration(Duration::from_nanos(left)),
        indicatif::HumanCount(progress.packets),
    );
    if !progress.waiting_for.is_empty() {
        text.push_str(", waiting for ");
        text.push_str(&visible(&progress.waiting_for));
    }
    text
}

fn virtual_text(progress: &sim::run::Progress) -> String {
    let wall_s = progress.took.as_secs_f64().max(1e-9);
    let (now, whole) = (progress.now.as_secs_f64(), progress.duration.as_secs_f64());
    let speed = now / wall_s;
    let left = Duration::try_from_secs_f64((whole - now).max(0.0) / speed.max(1e-12));
    // A narrow terminal shows only the first 55 columns, so the event rate comes last.
    format!(
        "{now:.1} of {whole:.1} s, {speed:.1} x, ETA {}, {:.0} k events/s",
        eta(left.ok()),
        progress.events as f64 / wall_s / 1e3,
    )
}

/// The remaining time, in its largest unit.
fn eta(left: Option<Duration>) -> String {
    left.map_or("unknown".to_owned(), |left| format!("{:#}", indicatif::HumanDuration(left)))
}

#[cfg(test)]
mod tests {
    use base::{Span, Time};

    use super::*;

    #[test]
    fn progress_fits_narrow_terminal() {
        let progress = sim::run::Progress {
            now: Time::ZERO + Span::from_secs(43_200),
            duration: Span::from_secs(86_400),
            took: Duration::from_secs(3600),
            events: 7_200_000_000,
            packet_hops: 0,
        };
        let text = virtual_text(&progress);
        assert_eq!(text, "43200.0 of 86400.0 s, 12.0 x, ETA 60m, 2000 k events/s");
        assert!(text.chars().count() <= 55);
    }
}
