//! Terminal output: stdout is data, stderr is log output. All text passes through here, where
//! control characters of lab files, run folders and programs become visible.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;
use serde_json::Value;

use crate::args::{Color, Global};
use crate::foreign_text::{OwnEscape, visible, visible_json};

/// A narrower terminal breaks lines.
const MIN_WIDTH: usize = 60;
/// A wider terminal has empty space on the right.
const MAX_WIDTH: usize = 120;

pub(crate) struct Terminal {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    verbose: u8,
    width: usize,
    /// Whether stdout has colours.
    pub(crate) color: bool,
    color_notes: bool,
    escape: OwnEscape,
    out: io::Stdout,
    err: io::Stderr,
}

#[derive(Clone, Copy)]
pub(crate) enum Style {
    Good,
    Warn,
    Bad,
    Strong,
    Dim,
}

impl Terminal {
    pub(crate) fn new(global: &Global) -> Self {
        let wanted = |tty: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
                tty && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        };
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            width: width(),
            color: wanted(io::stdout().is_terminal()),
            color_notes: wanted(io::stderr().is_terminal()),
            escape: OwnEscape::new(),
            out: io::stdout(),
            err: io::stderr(),
        }
    }

    /// Writes a result. A closed pipe is not an error.
    pub(crate) fn data(&self, text: impl Display) -> io::Result<()> {
        write_line(self.out.lock(), self.escape.finish(&text.to_string()))
    }

    /// Writes a document for another program, which may be empty. Only a terminal gets it with
    /// visible control characters.
    pub(crate) fn document(&self, text: &str) -> io::Result<()> {
        match text {
            "" => Ok(()),
            text if self.out.is_terminal() => self.data(text),
            text => write_line(self.out.lock(), text.to_owned()),
        }
    }

    /// Stdout for a document of any length, and whether it is a terminal.
    pub(crate) fn stream(&self) -> (io::StdoutLock<'static>, bool) {
        (io::stdout().lock(), self.out.is_terminal())
    }

    pub(crate) fn object(&self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value)?;
        write_line(self.out.lock(), visible_json(&text).into_owned())
    }

    /// Writes JSON to stderr, if stdout belongs to a command.
    pub(crate) fn error_object(&self, value: &Value) {
        // If writing to stderr fails, nothing can report it.
        let _ = write_line(self.err.lock(), visible_json(&value.to_string()).into_owned());
    }

    /// Writes a note to stderr, unless `--quiet` was given.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.error(text);
        }
    }

    /// Writes an error or a warning to stderr.
    pub(crate) fn error(&self, text: impl Display) {
        // If writing to stderr fails, nothing can report it.
        let _ = write_line(self.err.lock(), self.escape.finish(&text.to_string()));
    }

    /// Whether to show a progress line.
    pub(crate) fn progress(&self) -> bool {
        !self.quiet && self.err.is_terminal()
    }

    /// The layout of tables and reports, without colours.
    pub(crate) fn layout(&self) -> report::Layout {
        report::Layout { width: self.width, detail: self.verbose > 0, ..report::Layout::default() }
    }

    /// A table or report for stdout, in colour if stdout has colours.
    pub(crate) fn rendered(&self, render: impl Fn(&report::Layout) -> String) -> String {
        let layout = self.layout();
        self.escape.styled(self.color, |color| render(&report::Layout { color, ..layout.clone() }))
    }

    /// A text for stderr, which `render` colours if its argument is true.
    pub(crate) fn rendered_note(&self, render: impl Fn(bool) -> String) -> String {
        self.escape.styled(self.color_notes, render)
    }

    /// Whether to print the log of a run.
    pub(crate) fn shows_log(&self) -> bool {
        self.verbose > 1
    }

    /// Styles a text for stdout, if it has colours.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        self.painted(self.color, style, text)
    }

    /// Formats a table with dimmed headings that fits the terminal.
    pub(crate) fn table(&self, heads: &[&str], rows: &[Vec<String>]) -> String {
        let text = match self.verbose {
            0 => report::columns_within(heads, rows, 0..0, self.width),
            _ => report::columns(heads, rows, 0..0),
        };
        let (heads, rows) = text.split_once('\n').unwrap_or((&text, ""));
        format!("{}\n{rows}", self.paint(Style::Dim, heads))
    }

    /// Styles a text for stderr, if it has colours.
    pub(crate) fn paint_note(&self, style: Style, text: &str) -> String {
        self.painted(self.color_notes, style, text)
    }

    fn painted(&self, color: bool, style: Style, text: &str) -> String {
        if !color {
            return text.to_owned();
        }
        let code = match style {
            Style::Good => 32,
            Style::Warn => 33,
            Style::Bad => 31,
            Style::Strong => 1,
            Style::Dim => 2,
        };
        let escape = self.escape.as_str();
        format!("{escape}[{code}m{text}{escape}[0m")
    }
}

/// Lines of text from a run folder, each in one write.
pub(crate) struct Lines<W: Write> {
    out: BufWriter<W>,
    show: Option<fn(&str) -> Cow<'_, str>>,
}

impl<W: Write> Lines<W> {
    /// A terminal gets visible control characters. In JSON, they are escapes everywhere.
    pub(crate) fn new(out: W, is_terminal: bool, is_json: bool) -> Self {
        let show: Option<fn(&str) -> Cow<'_, str>> = match (is_json, is_terminal) {
            (true, _) => Some(visible_json),
            (false, true) => Some(visible),
            (false, false) => None,
        };
        Self { out: BufWriter::with_capacity(1 << 16, out), show }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(show) = self.show {
            self.out.write_all(show(&String::from_utf8_lossy(line)).as_bytes())?;
        } else {
            self.out.write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The width of lines: `COLUMNS`, or that of the terminal at standard output, from 60 to 120.
fn width() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = given.filter(|columns| *columns > 0).or_else(|| {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    });
    width.map_or(report::Layout::WIDTH, |columns| columns.clamp(MIN_WIDTH, MAX_WIDTH))
}

fn write_line(mut out: impl Write, mut text: String) -> io::Result<()> {
    // One write for the whole text, so that lines of several processes do not mix.
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_pipe_is_not_an_error() {
        assert!(write_line(ClosedPipe, "x".to_owned()).is_ok());
    }

    #[test]
    fn lines_end_with_one_newline() {
        let mut out = Vec::new();
        write_line(&mut out, "a".to_owned()).unwrap();
        write_line(&mut out, "b\n".to_owned()).unwrap();
        assert_eq!(out, b"a\nb\n");
    }
}
