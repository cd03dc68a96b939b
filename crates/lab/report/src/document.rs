//! A self-contained HTML page in the style of run reports.

use std::fmt::Write as _;

use crate::format::escape;

pub(crate) const STYLE: &str =
    concat!(include_str!("page/style.css"), include_str!("page/plot.css"));
/// The part of [`STYLE`] for plots.
pub(crate) const PLOT_STYLE: &str = include_str!("page/plot.css");
const SCRIPT: &str = include_str!("page/script.js");

/// An HTML page under construction.
pub struct Document {
    html: String,
}

impl Document {
    /// A page with this title, as text.
    pub fn new(title: &str) -> Self {
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">\
             <title>{}</title><style>{STYLE}</style></head><body><main>",
            escape(title)
        );
        Self { html }
    }

    /// Adds HTML without escaping.
    pub fn push(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// Adds a section, unless its body is empty. The title is text, the body is HTML.
    pub fn section(&mut self, title: &str, body: &str) {
        if !body.is_empty() {
            let _ = write!(self.html, "<section><h2>{}</h2>{body}</section>", escape(title));
        }
    }

    /// The complete page, with a footer that names netarium's version.
    pub fn finish(mut self, version: &str) -> String {
        let _ = writeln!(
            self.html,
            "<footer>Netarium {} · self-contained page</footer></main>\
             <div id=\"tip\" hidden></div><script>{SCRIPT}</script></body></html>",
            escape(version)
        );
        self.html
    }

    /// A table of texts. Columns in `numbers` are right-aligned.
    pub fn table(heads: &[&str], rows: &[Vec<String>], numbers: std::ops::Range<usize>) -> String {
        let class = |index: usize| if numbers.contains(&index) { " class=\"num\"" } else { "" };
        let mut out = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (index, head) in heads.iter().enumerate() {
            let _ = write!(out, "<th{}>{}</th>", class(index), escape(head));
        }
        out.push_str("</tr></thead><tbody>");
        for row in rows {
            out.push_str("<tr>");
            for (index, cell) in row.iter().enumerate() {
                let _ = write!(out, "<td{}>{}</td>", class(index), escape(cell));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        out
    }
}
