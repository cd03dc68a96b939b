//! `index.html`: every figure of the folder on one page.

use std::fmt::Write as _;

use report::Document;
use report::format::{escape, seconds, utc};

use crate::{Claim, FigureResult, Paper, Results, Status};

pub(crate) fn render(results: &Results, paper: &Paper) -> String {
    let mut page = Document::new(&format!("{}: Netarium reproduction", paper.title));
    page.push(&format!(
        "<header><p class=\"kicker\">Netarium reproduction</p><h1>{}</h1><p>{}</p></header>",
        escape(paper.title),
        escape(paper.citation)
    ));
    // The paper's order; numbers that it no longer has come last.
    let place =
        |id: &str| paper.figures.iter().position(|figure| figure.id == id).unwrap_or(usize::MAX);
    let mut figures: Vec<&FigureResult> = results.figures.values().collect();
    figures.sort_by_key(|figure| place(&figure.id));
    page.section("Summary", &summary(&figures));
    for figure in figures {
        page.push(&section(figure));
    }
    page.finish(&results.version)
}

/// A word for a status, and its class.
fn status(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Holds => ("holds", "good"),
        Status::Untrusted => ("holds, not trusted", "bad"),
        Status::Differs => ("differs", "bad"),
        Status::Failed => ("could not be made", "bad"),
    }
}

fn summary(figures: &[&FigureResult]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>figure</th><th>shows</th>\
         <th>claims</th><th>verdict</th></tr></thead><tbody>",
    );
    for figure in figures {
        let (word, class) = status(figure.status);
        let claims = &figure.evidence.claims;
        let held = claims.iter().filter(|claim| claim.holds).count();
        let short = if figure.short { " (short)" } else { "" };
        let _ = write!(
            out,
            "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td>{held} of {2}</td>\
             <td class=\"{class}\">{word}{short}</td></tr>",
            escape(&figure.id),
            escape(&figure.title),
            claims.len()
        );
    }
    out + "</tbody></table></div>"
}

fn section(figure: &FigureResult) -> String {
    let mut out =
        format!("<section id=\"{0}\"><h2>{0}: {1}</h2>", escape(&figure.id), escape(&figure.title));
    if figure.short {
        out.push_str("<p>Made with reduced sizes: it shows that all works, not more.</p>");
    }
    if let Some(error) = &figure.error {
        let _ = write!(
            out,
            "<div class=\"verdict bad\"><span class=\"mark\">!</span>\
             <div><strong>Could not be made</strong><pre>{}</pre></div></div>",
            escape(error)
        );
    }
    if !figure.evidence.claims.is_empty() {
        out.push_str(&claims(&figure.evidence.claims));
    }
    if !figure.evidence.plots.is_empty() {
        out.push_str("<div class=\"plots\" style=\"margin-top:16px\">");
        for plot in &figure.evidence.plots {
            out.push_str(&plot.html());
        }
        out.push_str("</div>");
    }
    for table in &figure.evidence.tables {
        let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
        let body = Document::table(&heads, &table.rows, 1..heads.len());
        let _ = write!(out, "<h3 style=\"margin:16px 0 6px\">{}</h3>{body}", escape(&table.title));
    }
    if !figure.evidence.notes.is_empty() {
        out.push_str("<ul>");
        for note in &figure.evidence.notes {
            let _ = write!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul>");
    }
    out.push_str(&runs(figure));
    out + "</section>"
}

fn claims(claims: &[Claim]) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>what</th><th>paper</th><th>here</th>\
         <th>verdict</th></tr></thead><tbody>",
    );
    for claim in claims {
        let (class, word) =
            if claim.holds { ("good", "✓ holds") } else { ("bad", "✗ differs") };
        let _ = write!(
            out,
            "<tr><td style=\"white-space:normal\">{}</td><td>{}</td>\
             <td style=\"min-width:120px\">{}</td><td class=\"{class}\">{word}</td></tr>",
            escape(&claim.what),
            escape(&claim.paper),
            escape(&claim.ours)
        );
    }
    out + "</tbody></table></div>"
}

fn runs(figure: &FigureResult) -> String {
    let mut out = String::new();
    if !figure.runs.is_empty() {
        out.push_str("<details><summary>Runs</summary><ul>");
        for run in &figure.runs {
            let doubt = match (run.trusted, run.reasons.join("; ")) {
                (true, _) => String::new(),
                (false, reasons) => format!(", not trusted: {}", escape(&reasons)),
            };
            let _ = write!(
                out,
                "<li><a href=\"{}\">{}</a> ({}){doubt}<pre>{}</pre></li>",
                escape(&run.report()),
                escape(&run.name),
                crate::run::label(run.clock, run.model),
                escape(&run.repeat)
            );
        }
        out.push_str("</ul></details>");
    }
    let _ = write!(
        out,
        "<p>Made {} in {}. Again:</p><pre class=\"repeat\">{}</pre>",
        utc(figure.made_unix_ms),
        seconds(figure.took_s),
        escape(&figure.repeat)
    );
    out
}
