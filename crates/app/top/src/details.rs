//! The selected link, flow or program, and the log.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use report::format;
use run::live::Frame;

use crate::App;
use crate::draw::{moment, put, put_right, rule, shorten};
use crate::history::{self, Level};
use crate::rows::{self, Row, Tab, Tone};
use crate::style::{REVERSED, Theme};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Means of `value` in intervals, one per column, and the shown interval. A running lab has the
/// newest intervals, a finished run all.
pub(crate) fn series(
    app: &App,
    width: usize,
    value: impl Fn(&Frame) -> f64,
) -> (Vec<Option<f64>>, Option<usize>) {
    let history = &app.history;
    let (from, part, until) = span(app, width);
    let until = if history.is_finished() { history.last() } else { until };
    let series = history.series(from, part, width, until, value);
    let shown = ((app.state.t - 1e-9 - from) / part) as usize;
    (series, history.is_finished().then_some(shown))
}

/// The start of a series, the length of its parts, and the last frame.
fn span(app: &App, width: usize) -> (f64, f64, usize) {
    let history = &app.history;
    if history.is_finished() {
        let duration = history.hello.duration_s.unwrap_or_default().max(1e-9);
        return (0.0, duration / width.max(1) as f64, history.last());
    }
    let part = history.window();
    // Whole parts, so that old columns do not change.
    let end = (app.state.t / part - 1e-9).ceil() * part;
    (end - width as f64 * part, part, app.frame())
}

/// The larger limit of a link; `None` if a direction is unlimited.
pub(crate) fn limit(app: &App, link: u32) -> Option<f64> {
    let [a, b] = app.state.links[link as usize].rate_bps;
    Some(a?.max(b?))
}

/// Draws a series upwards from the bottom of a place. Its top is `limit`, or the maximum.
pub(crate) fn sparkline(
    theme: Theme,
    series: &[Option<f64>],
    limit: Option<f64>,
    marked: Option<usize>,
    at: Rect,
    buffer: &mut Buffer,
) {
    let max = series.iter().flatten().fold(0.0_f64, |max, value| max.max(*value));
    let top = limit.unwrap_or(max).max(max * 0.98).max(1e-9);
    for (x, value) in series.iter().enumerate().take(usize::from(at.width)) {
        let share = value.unwrap_or_default() / top;
        let style = match limit {
            Some(_) => theme.load(share),
            None => theme.load(0.0),
        };
        let eighths = (share * f64::from(at.height) * 8.0).round() as usize;
        for line in 0..usize::from(at.height) {
            let bar = match eighths.saturating_sub(8 * line).min(8) {
                0 if line > 0 || value.is_none() => ' ',
                0 => BARS[0],
                bar => BARS[bar - 1],
            };
            let is_idle = eighths == 0;
            let style = if is_idle { theme.tone(Tone::Dim) } else { style };
            let style = if marked == Some(x) { style.patch(REVERSED) } else { style };
            let y = at.bottom() - 1 - line as u16;
            buffer.set_string(at.x + x as u16, y, bar.to_string(), style);
        }
    }
}

pub(crate) fn draw(app: &App, theme: Theme, row: Option<&Row>, at: Rect, buffer: &mut Buffer) {
    let line = |y: u16| Rect { y: at.y + y, height: 1, ..at };
    let Some(row) = row else { return rule(buffer, theme, line(0), "nothing selected", "") };
    let width = usize::from(at.width).saturating_sub(2);
    let (_, part, _) = span(app, width);
    let time = if app.history.is_finished() {
        "whole run".to_owned()
    } else {
        format!("last {:.0} s", part * width as f64)
    };
    match app.tab {
        Tab::Links => {
            let name = format::visible(&app.history.hello.links[row.index as usize].name);
            rule(buffer, theme, line(0), &format!("link {name}"), &time);
            // Half of the lines for each direction.
            let height = (at.height - 1) / 2;
            for side in 0..2 {
                let y = at.y + 1 + side as u16 * height;
                direction(app, theme, row.index, side, Rect { y, height, ..at }, buffer);
            }
        }
        Tab::Flows => {
            rule(buffer, theme, line(0), &format!("flow {}", flow_name(app, row)), &time);
            put(buffer, line(1), flow(app, theme, row.index));
            let chart = Rect { x: 1, y: at.y + 2, width: at.width - 2, height: at.height - 2 };
            let (series, shown) =
                series(app, width, |frame| history::flow_row(frame, row.index).goodput_bps);
            sparkline(theme, &series, None, shown, chart, buffer);
            let max = series.iter().flatten().fold(0.0_f64, |max, value| max.max(*value));
            let text = format!("maximum {} ", format::rate(max));
            put_right(buffer, line(1), 30, Line::styled(text, theme.tone(Tone::Dim)));
        }
        Tab::Programs => {
            let name = &app.history.hello.programs[row.index as usize].name;
            let title = format!("program {}: log", format::visible(name));
            rule(buffer, theme, line(0), &title, "");
            let rest = Rect { y: at.y + 1, height: at.height - 1, ..at };
            lines(app, theme, rest, buffer, |source| source == name);
        }
    }
}

fn flow_name(app: &App, row: &Row) -> String {
    format::visible(&app.history.hello.flows[row.index as usize].name)
}

fn direction(app: &App, theme: Theme, link: u32, side: usize, at: Rect, buffer: &mut Buffer) {
    let values = &app.state.links[link as usize];
    let row = app.rates.links.get(&link).map(|sides| sides[side]).unwrap_or_default();
    let name = rows::direction(&app.history.hello, link, side);
    let limit = rows::limit(values.rate_bps[side]);
    let mut facts = vec![
        format!("{} of {limit}", format::rate(row.sent_bps)),
        format!("delay {}", format::seconds(values.delay_s[side])),
        format!("loss {}", format::share(values.loss[side])),
    ];
    let queue = format::bytes(row.queue_bytes);
    facts.push(match values.queue_bytes[side] {
        Some(limit) => format!("queue {queue} of {}", format::bytes(limit)),
        None => format!("queue {queue}"),
    });
    if row.dropped_packets > 0 {
        facts.push(format!("{} dropped", format::plural(row.dropped_packets as usize, "packet")));
    }
    let spans = vec![
        Span::styled(format!(" {}  ", shorten(&name, 24)), theme.strong()),
        Span::raw(facts.join("  ")),
    ];
    put(buffer, Rect { height: 1, ..at }, Line::from(spans));
    let chart = Rect { x: 1, y: at.y + 1, width: at.width - 2, height: at.height - 1 };
    let (series, shown) = series(app, usize::from(chart.width), |frame| {
        history::link_row(frame, link).directions[side].sent_bps
    });
    sparkline(theme, &series, values.rate_bps[side], shown, chart, buffer);
}

fn flow(app: &App, theme: Theme, flow: u32) -> Line<'static> {
    let hello = &app.history.hello;
    let flow = &hello.flows[flow as usize];
    let ends = [flow.from, flow.to].map(|node| rows::node(hello, node));
    let hops = flow.path.iter().map(|(link, _)| {
        let link = hello.links.get(*link as usize);
        format::visible(link.map_or("?", |link| link.name.as_str()))
    });
    let hops: Vec<String> = hops.collect();
    let path = if hops.is_empty() { "unknown path".to_owned() } else { hops.join(", ") };
    Line::from(vec![
        Span::styled(format!(" {} → {}  ", ends[0], ends[1]), theme.strong()),
        Span::raw(format!("{}  over {path}", format::visible(&flow.kind))),
    ])
}

/// Events and the log up to the shown time, the newest last.
pub(crate) fn log(app: &App, theme: Theme, at: Rect, buffer: &mut Buffer) {
    rule(buffer, theme, Rect { height: 1, ..at }, "events and log", "");
    let mut rest = Rect { y: at.y + 1, height: at.height - 1, ..at };
    let width = usize::from(at.width).saturating_sub(1);
    if app.shown.is_none() {
        for text in conclusion(app).iter().take(usize::from(rest.height)).rev() {
            rest.height -= 1;
            let at = Rect { y: rest.bottom(), height: 1, ..at };
            let text = format!(" {}", shorten(&format::visible(text), width));
            put(buffer, at, Line::styled(text, theme.tone(Tone::Bad)));
        }
    }
    lines(app, theme, rest, buffer, |_| true);
}

/// The reasons for an outcome other than `passed`.
fn conclusion(app: &App) -> Vec<String> {
    match (&app.history.end, &app.lost) {
        (Some(end), _) => {
            let reasons = end.reasons.iter();
            reasons.map(|reason| format!("{}: {reason}", end.outcome)).collect()
        }
        (None, Some(why)) => vec![why.clone()],
        _ => Vec::new(),
    }
}

/// The newest lines of these sources.
fn lines(app: &App, theme: Theme, at: Rect, buffer: &mut Buffer, is_wanted: impl Fn(&str) -> bool) {
    let until = if app.shown.is_some() { app.state.t } else { f64::INFINITY };
    let found = app.history.lines.iter().rev();
    let found = found.filter(|line| line.at <= until && is_wanted(&line.source));
    let found: Vec<_> = found.take(usize::from(at.height)).collect();
    for (y, line) in (at.y..).zip(found.into_iter().rev()) {
        let (symbol, tone) = match line.level {
            Level::Event => ("◆", Tone::Good),
            Level::Info => (" ", Tone::Plain),
            Level::Warning => ("!", Tone::Warn),
            Level::Error => ("✗", Tone::Bad),
        };
        let source = if line.source.is_empty() { "event" } else { line.source.as_str() };
        let start = format!("{:>9} ", moment(line.at));
        let width = usize::from(at.width).saturating_sub(start.len() + 3);
        let text = format!("{}: {}", format::visible(source), format::visible(&line.text));
        let spans = vec![
            Span::styled(start, theme.tone(Tone::Dim)),
            Span::styled(format!("{symbol} "), theme.tone(tone)),
            Span::styled(
                shorten(&text, width),
                if line.level == Level::Event { Style::new() } else { theme.tone(tone) },
            ),
        ];
        put(buffer, Rect { y, height: 1, ..at }, Line::from(spans));
    }
}
