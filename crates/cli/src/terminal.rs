//! stdout is data, stderr is talk.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::args::{Color, Global};

/// Where a command's words go.
pub(crate) struct Terminal {
    /// Whether `--json` was given.
    pub(crate) json: bool,
    quiet: bool,
    color: bool,
    color_talk: bool,
    out: io::Stdout,
    err: io::Stderr,
}

/// How a word looks.
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
            color: wanted(io::stdout().is_terminal()),
            color_talk: wanted(io::stderr().is_terminal()),
            out: io::stdout(),
            err: io::stderr(),
        }
    }

    /// Writes a result. A reader that has gone away is no error: it has what it wanted.
    pub(crate) fn data(&self, text: impl Display) -> io::Result<()> {
        write_line(self.out.lock(), &text)
    }

    /// Writes a result as JSON.
    pub(crate) fn object(&self, value: &Value) -> io::Result<()> {
        self.data(value)
    }

    /// Says something on the side.
    pub(crate) fn talk(&self, text: impl Display) {
        if !self.quiet {
            self.error(text);
        }
    }

    /// Says something that must be said.
    pub(crate) fn error(&self, text: impl Display) {
        // Nobody can be told that nobody listens.
        let _ = write_line(self.err.lock(), &text);
    }

    /// Whether a progress line makes sense.
    pub(crate) fn progress(&self) -> bool {
        !self.quiet && self.err.is_terminal()
    }

    /// Whether talk is coloured.
    pub(crate) fn color_talk(&self) -> bool {
        self.color_talk
    }

    /// A word of a result, in a style where the terminal has it.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        paint(self.color, style, text)
    }

    /// A word of talk.
    pub(crate) fn paint_talk(&self, style: Style, text: &str) -> String {
        paint(self.color_talk, style, text)
    }
}

fn paint(color: bool, style: Style, text: &str) -> String {
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
    format!("\x1b[{code}m{text}\x1b[0m")
}

fn write_line(mut out: impl Write, text: &impl Display) -> io::Result<()> {
    // One write for the whole text, so that lines of several processes do not mix.
    let mut text = text.to_string();
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

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        assert!(write_line(Gone, &"x").is_ok());
    }

    #[test]
    fn lines_end_once() {
        let mut out = Vec::new();
        write_line(&mut out, &"a").unwrap();
        write_line(&mut out, &"b\n").unwrap();
        assert_eq!(out, b"a\nb\n");
    }
}
