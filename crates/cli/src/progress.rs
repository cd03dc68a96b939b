//! The progress line of a run.

use std::time::Duration;

use emu::run::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line that shows how far a run is, and what it waits for.
pub(crate) struct Line {
    bar: ProgressBar,
}

impl Line {
    /// A line on stderr, or an invisible one.
    pub(crate) fn new(visible: bool) -> Self {
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:24} {msg}").expect("the template is right");
        bar.set_style(style);
        Self { bar }
    }

    /// Shows what a run says of itself.
    pub(crate) fn show(&self, progress: &Progress) {
        let whole = progress.duration.as_nanos();
        let now = progress.now.as_nanos().min(whole);
        self.bar.set_length(whole);
        self.bar.set_position(now);
        self.bar.set_message(text(progress));
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn text(progress: &Progress) -> String {
    let whole = progress.duration.as_nanos();
    let left = whole.saturating_sub(progress.now.as_nanos());
    let mut text = format!(
        "{:.1} of {:.1} s, at most {} left, {} packets",
        progress.now.as_secs_f64(),
        progress.duration.as_secs_f64(),
        indicatif::HumanDuration(Duration::from_nanos(left)),
        indicatif::HumanCount(progress.packets),
    );
    if !progress.waiting_for.is_empty() {
        text.push_str(", waiting for ");
        text.push_str(&progress.waiting_for);
    }
    text
}
