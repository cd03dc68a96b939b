//! The layout of text in a terminal.

/// The width of a terminal, and what to show in it.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Maximum number of columns of a line.
    pub width: usize,
    /// Whether the outcome and failures are coloured.
    pub color: bool,
    /// Show all rows and columns with their whole texts, and details of the verdict.
    pub detail: bool,
    /// The run's folder, for the command that shows all rows.
    pub run: String,
}

impl Layout {
    /// The width of output that is not a terminal.
    pub const WIDTH: usize = 100;
}

impl Default for Layout {
    fn default() -> Self {
        Self { width: Self::WIDTH, color: false, detail: false, run: "RUN".to_owned() }
    }
}

/// Colours of the outcome, as codes of ANSI terminals.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Warn,
    Bad,
}

impl Layout {
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => 32,
            Tone::Warn => 33,
            Tone::Bad => 31,
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The width of a table; `None` shows all of it.
    pub(crate) fn table_width(&self) -> Option<usize> {
        (!self.detail).then_some(self.width)
    }

    /// The command that shows the rows that a table omits.
    pub(crate) fn omitted(&self, count: usize) -> String {
        let text = |run: &str| format!("… and {count} more (netarium report {run} -v)");
        Some(text(&self.run)).filter(|t| t.chars().count() + 10 < self.width).unwrap_or(text("RUN"))
    }
}

/// A text without control characters, which could change the terminal.
pub(crate) fn clean(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(safe).collect()
}

/// Shortens a text to `width` columns. Of a path, the end remains; of another text, the start.
pub fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    if text.contains('/') && !text.contains(' ') {
        format!("…{}", text.chars().skip(length - kept).collect::<String>())
    } else {
        let start: String = text.chars().take(kept).collect();
        format!("{}…", start.trim_end())
    }
}

/// Breaks a text into lines of at most `width` columns, at spaces where possible.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(10);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in clean(text).split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        let Some(line) = lines.last_mut() else { continue };
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        if length <= width {
            line.push_str(word);
            used += length;
            continue;
        }
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(width) {
            if used > 0 {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.extend(part);
            }
            used = part.len();
        }
    }
    lines
}

/// A text after a label; further lines are indented by the label's length.
pub fn hanging(label: &str, text: &str, width: usize) -> String {
    let indent = label.chars().count();
    let lines = wrap(text, width.saturating_sub(indent));
    format!("{label}{}", lines.join(&format!("\n{}", " ".repeat(indent))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_texts_at_the_end_and_paths_at_the_start() {
        assert_eq!(shorten("sleep 10", 8), "sleep 10");
        assert_eq!(shorten("sleep 1000", 8), "sleep 1…");
        assert_eq!(shorten("/home/me/runs/dumbbell-1a2b3c", 20), "…uns/dumbbell-1a2b3c");
    }

    #[test]
    fn wrapped_lines_have_at_most_the_width() {
        let text = "one two three abcdefghijklmnopqrstuvwxyz end";
        assert_eq!(wrap(text, 12), ["one two", "three", "abcdefghijkl", "mnopqrstuvwx", "yz end"]);
        assert_eq!(hanging("trust    ", "a b c d e f g", 20), "trust    a b c d e f\n         g");
        assert_eq!(wrap("\x1b[2J", 12), ["\u{fffd}[2J"]);
    }
}
