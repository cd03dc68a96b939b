//! Styles. Each differs from the others without colours too: by weight, a symbol or a word.

use ratatui::style::{Color, Modifier, Style};

use crate::rows::Tone;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) has_color: bool,
}

impl Theme {
    fn fg(self, color: Color, weight: Modifier) -> Style {
        let style = Style::new().add_modifier(weight);
        if self.has_color { style.fg(color) } else { style }
    }

    pub(crate) fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => self.fg(Color::Green, Modifier::empty()),
            Tone::Warn => self.fg(Color::Yellow, Modifier::BOLD),
            Tone::Bad => self.fg(Color::Red, Modifier::BOLD | Modifier::UNDERLINED),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        }
    }

    /// Titles of sections and keys.
    pub(crate) fn strong(self) -> Style {
        self.fg(Color::Cyan, Modifier::BOLD)
    }

    /// Bars and lines of loads.
    pub(crate) fn load(self, load: f64) -> Style {
        match load {
            load if load >= 0.95 => self.fg(Color::Red, Modifier::BOLD),
            load if load >= 0.8 => self.fg(Color::Yellow, Modifier::BOLD),
            _ => self.fg(Color::Green, Modifier::empty()),
        }
    }
}

pub(crate) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
pub(crate) const TITLE: Style = Style::new().add_modifier(Modifier::REVERSED.union(Modifier::BOLD));
