//! Draws an [`App`].

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget as _};
use report::format;

use crate::App;
use crate::app::Mode;
use crate::details;
use crate::form::{self, Form, Input, KEYS};
use crate::history::{self, History};
use crate::rows::{self, Cell, Column, Row, Tab, Tone};
use crate::style::{REVERSED, TITLE, Theme};

/// Minimum columns and rows of the terminal.
const MIN_SIZE: (u16, u16) = (60, 16);

/// A rule, and two lines for each direction.
const MIN_DETAILS_ROWS: u16 = 5;
/// A rule and four lines.
const MIN_LOG_ROWS: u16 = 5;
const MIN_TABLE_ROWS: u16 = 3;

/// Keys with their effects, and columns with their meanings.
const HELP: &[(&str, &str)] = &[
    ("Tab 1 2 3", "links, flows, programs"),
    ("↑ ↓ PgUp PgDn", "select a row; Home and End: the first, the last"),
    ("s S", "sort by the next column; reverse the order"),
    ("/", "filter by names and other words; Esc clears"),
    ("Space", "pause the picture, or continue; the lab goes on"),
    ("← →", "earlier, later; `,` and `.` by one frame"),
    ("g G", "the first moment, the newest"),
    ("Enter", "change the link; stop or start the program"),
    ("m w", "add a mark; save the changes as [[at]] in a file"),
    ("q Ctrl-C", "quit; the lab goes on"),
    ("", ""),
    ("RATE →", "of wire bytes, from the first end of a link"),
    ("QUEUE", "the maximum of both directions"),
];

/// Places of the parts, from top to bottom.
struct Parts {
    bar: Option<Rect>,
    tabs: Rect,
    head: Rect,
    table: Rect,
    details: Rect,
    log: Rect,
    footer: Rect,
}

fn parts(size: (u16, u16), history: &History) -> Parts {
    let (width, height) = size;
    let hello = &history.hello;
    let has_bar = hello.duration_s.is_some();
    // Title, machine, time, tabs, heads, footer.
    let free = height.saturating_sub(5 + u16::from(has_bar));
    let rows = hello.links.len().max(hello.flows.len()).max(hello.programs.len());
    let log =
        if free >= MIN_DETAILS_ROWS + MIN_LOG_ROWS + MIN_TABLE_ROWS { MIN_LOG_ROWS } else { 0 };
    let max_table = free.saturating_sub(MIN_DETAILS_ROWS + log).max(MIN_TABLE_ROWS);
    let rows = if log == 0 { usize::from(max_table) } else { rows };
    let table = (rows.min(usize::from(max_table)) as u16).max(MIN_TABLE_ROWS);
    let spare = free.saturating_sub(MIN_DETAILS_ROWS + log + table);
    // Two sparklines grow by up to three lines each.
    let details = MIN_DETAILS_ROWS + 2 * (spare / 4).min(3);
    let log = if log == 0 { 0 } else { free.saturating_sub(details + table) };
    let mut y = 2;
    let mut next = |height: u16| {
        y += height;
        Rect::new(0, y - height, width, height)
    };
    let bar = has_bar.then(|| next(1));
    let (tabs, head, table) = (next(1), next(1), next(table));
    let (details, log) = (next(details), next(log));
    Parts { bar, tabs, head, table, details, log, footer: Rect::new(0, height - 1, width, 1) }
}

/// Number of rows of the table that are visible.
pub(crate) fn table_height(size: (u16, u16), history: &History) -> usize {
    usize::from(parts((size.0, size.1.max(MIN_SIZE.1)), history).table.height)
}

pub(crate) fn draw(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        too_small(area, buffer);
        return;
    }
    let theme = Theme { has_color: app.has_color };
    let parts = parts((area.width, area.height), &app.history);
    title(app, area.width, buffer);
    put(buffer, row(area, 1), machine(app, theme));
    if let Some(bar) = parts.bar {
        time_bar(app, theme, bar, buffer);
    }
    let rows = app.rows();
    tabs(app, theme, &rows, parts.tabs, buffer);
    table(app, theme, &rows, &parts, buffer);
    details::draw(app, theme, rows.get(app.place(&rows)), parts.details, buffer);
    if parts.log.height > 0 {
        details::log(app, theme, parts.log, buffer);
    }
    let mut cursor = footer(app, theme, parts.footer, buffer);
    match &app.mode {
        Mode::Form(form) => cursor = self::form(app, theme, form, area, buffer),
        Mode::Help => help(theme, area, buffer),
        _ => {}
    }
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

fn too_small(area: Rect, buffer: &mut Buffer) {
    let (width, height) = MIN_SIZE;
    let lines = [
        format!("terminal too small: {}x{}", area.width, area.height),
        format!("needs {width}x{height}: enlarge it,"),
        "or press q to quit".to_owned(),
    ];
    for (y, line) in (0..area.height).zip(lines) {
        put(buffer, row(area, y), Line::raw(line));
    }
}

/// A line of an area.
fn row(area: Rect, y: u16) -> Rect {
    Rect::new(area.x, area.y + y, area.width, 1)
}

/// Writes a line at the start of a place.
pub(crate) fn put<'a>(buffer: &mut Buffer, at: Rect, line: impl Into<Line<'a>>) {
    buffer.set_line(at.x, at.y, &line.into(), at.width);
}

/// Writes a line at the end of a place, if there is enough space after `left`.
pub(crate) fn put_right<'a>(buffer: &mut Buffer, at: Rect, left: usize, line: impl Into<Line<'a>>) {
    let line = line.into();
    let width = line.width();
    if left + width < usize::from(at.width) {
        buffer.set_line(at.right() - width as u16, at.y, &line, width as u16);
    }
}

/// A rule with a title.
pub(crate) fn rule(buffer: &mut Buffer, theme: Theme, at: Rect, title: &str, right: &str) {
    buffer.set_style(at, theme.tone(Tone::Dim));
    buffer.set_string(at.x, at.y, "─".repeat(usize::from(at.width)), Style::new());
    let line = Line::styled(format!(" {title} "), theme.strong().remove_modifier(Modifier::DIM));
    let left = line.width() + 2;
    put(buffer, Rect::new(at.x + 1, at.y, at.width - 2, 1), line);
    if !right.is_empty() {
        put_right(
            buffer,
            Rect { width: at.width - 1, ..at },
            left,
            Line::raw(format!(" {right} ")),
        );
    }
}

/// Lab time: `12.3 s`, `2:05.0` or `1:02:05`.
pub(crate) fn moment(seconds: f64) -> String {
    let tenths = (seconds.max(0.0) * 10.0).round() as u64;
    let (hours, minutes) = (tenths / 36_000, tenths / 600 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds:.1} s"),
        (0, _) => format!("{minutes}:{:04.1}", (tenths % 600) as f64 / 10.0),
        _ => format!("{hours}:{minutes:02}:{:02}", tenths / 10 % 60),
    }
}

fn title(app: &App, width: u16, buffer: &mut Buffer) {
    let history = &app.history;
    let hello = &history.hello;
    let state = match (&history.end, &app.lost) {
        (Some(end), _) => match end.outcome.as_str() {
            "passed" => "✓ passed".to_owned(),
            "failed" => "✗ failed".to_owned(),
            other => format!("! {other}"),
        },
        (None, Some(_)) => "✗ connection lost".to_owned(),
        _ if app.is_paused() => {
            format!("‖ PAUSED, the lab goes on: {}", moment(history.newest()))
        }
        _ => "● running".to_owned(),
    };
    let mut time = moment(app.state.t);
    if let Some(duration) = hello.duration_s {
        time = format!("{time} of {}", moment(duration));
    }
    let left = format!(" {}  {time}  {state} ", format::visible(&hello.lab));
    let clock = if history.is_finished() { "finished run" } else { "live" };
    let clock = if hello.clock == run::record::Clock::Virtual { "virtual clock" } else { clock };
    let right = format!("{clock}, seed {} ", hello.seed);
    let at = Rect::new(0, 0, width, 1);
    buffer.set_style(at, TITLE);
    let left = Line::raw(left);
    put_right(buffer, at, left.width(), Line::raw(right));
    put(buffer, at, left);
}

/// Lateness of this machine, and failures so far.
fn machine(app: &App, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    // A finished run has the lateness of the whole run.
    let whole_run = app.history.frames.back().filter(|_| app.history.is_finished());
    match app.state.machine.or(whole_run.and_then(|frame| frame.machine)) {
        _ if app.history.hello.clock == run::record::Clock::Virtual => {
            spans.push(Span::styled(" ✓ exact times", theme.tone(Tone::Good)));
        }
        None => spans.push(Span::styled(" lateness unknown: no packets yet", Style::new())),
        Some(machine) => {
            spans.push(if machine.trusted {
                Span::styled(" ✓ on time", theme.tone(Tone::Good))
            } else {
                Span::styled(" ✗ TOO LATE", theme.tone(Tone::Bad))
            });
            let [p50, p99, max] =
                [machine.late_p50_s, machine.late_p99_s, machine.late_max_s].map(format::seconds);
            spans.push(Span::raw(format!(", lateness p50 {p50}, p99 {p99}, max {max}")));
        }
    }
    let failed = |row: &&run::live::ProgramRow| row.state == run::live::ProgramState::Failed;
    let failed = app.state.programs.iter().filter(failed).count();
    if failed > 0 {
        let text = format!("  ✗ {} failed", format::plural(failed, "program"));
        spans.push(Span::styled(text, theme.tone(Tone::Bad)));
    }
    if app.history.dropped > 0 {
        let frames = format::plural(app.history.dropped as usize, "frame");
        spans.push(Span::styled(format!("  ! {frames} skipped"), theme.tone(Tone::Warn)));
    }
    Line::from(spans)
}

/// The shown time, within the duration.
fn time_bar(app: &App, theme: Theme, at: Rect, buffer: &mut Buffer) {
    let duration = app.history.hello.duration_s.unwrap_or_default();
    let (start, end) = (" 0 s ", format!(" {} ", moment(duration)));
    let width = usize::from(at.width).saturating_sub(start.len() + end.len());
    let share = if duration > 0.0 { (app.state.t / duration).clamp(0.0, 1.0) } else { 0.0 };
    let place = (share * width.saturating_sub(1) as f64).round() as usize;
    let line = Line::from(vec![
        Span::raw(start),
        Span::styled("━".repeat(place), theme.strong()),
        Span::styled("●", theme.strong()),
        Span::styled("─".repeat(width.saturating_sub(place + 1)), theme.tone(Tone::Dim)),
        Span::raw(end),
    ]);
    put(buffer, at, line);
}

fn tabs(app: &App, theme: Theme, rows: &[Row], at: Rect, buffer: &mut Buffer) {
    let hello = &app.history.hello;
    let counts = [hello.links.len(), hello.flows.len(), hello.programs.len()];
    let mut spans = Vec::new();
    for (tab, count) in Tab::ALL.into_iter().zip(counts) {
        let number = tab.index() + 1;
        let is_selected = tab == app.tab;
        let count = if is_selected && rows.len() != count {
            format!("{} of {count}", rows.len())
        } else {
            count.to_string()
        };
        let style = if is_selected { TITLE } else { Style::new() };
        spans.push(Span::raw(" "));
        spans.push(Span::styled(format!(" {number} {} {count} ", tab.title()), style));
    }
    let line = Line::from(spans);
    let left = line.width();
    put(buffer, at, line);
    if !app.filter.is_empty() {
        let text = format!("filter: {} (Esc clears) ", format::visible(&app.filter));
        put_right(buffer, at, left, Line::styled(text, theme.tone(Tone::Warn)));
    }
}

/// The shown columns, with their positions and widths.
fn columns(tab: Tab, width: u16) -> Vec<(usize, u16, &'static Column)> {
    let all = tab.columns().iter().enumerate();
    let shown: Vec<_> = all.filter(|(_, column)| column.from <= width).collect();
    let fixed: u16 = shown.iter().map(|(_, column)| column.width + 1).sum();
    let flexible = shown.iter().filter(|(_, column)| column.width == 0).count().max(1) as u16;
    let free = width.saturating_sub(fixed + 1);
    // The first of several flexible columns has at most 30 characters, which names need.
    let each = free / flexible;
    let first = if flexible > 1 { each.min(30) } else { each };
    let last = if flexible > 1 { (free - first) / (flexible - 1) } else { 0 };
    let mut is_first = true;
    let width_of = |(at, column): (usize, &'static Column)| match column.width {
        0 if std::mem::take(&mut is_first) => (at, first, column),
        0 => (at, last, column),
        width => (at, width, column),
    };
    shown.into_iter().map(width_of).collect()
}

fn table(app: &App, theme: Theme, rows: &[Row], parts: &Parts, buffer: &mut Buffer) {
    let columns = columns(app.tab, parts.table.width);
    let sort = app.sorts[app.tab.index()];
    heads(theme, &columns, sort, parts.head, buffer);
    let height = usize::from(parts.table.height);
    let place = app.place(rows);
    // The selected row is in the middle, except near both ends.
    let first = place.saturating_sub(height / 2).min(rows.len().saturating_sub(height));
    for (y, (at, item)) in rows.iter().enumerate().skip(first).take(height).enumerate() {
        let line = row(parts.table, y as u16);
        let mut x = 1;
        for (column, width, config) in &columns {
            let at = Rect::new(x, line.y, *width, 1);
            cell(app, theme, item, *column, config.is_right, at, buffer);
            x += width + 1;
        }
        if at == place {
            buffer.set_style(line, REVERSED);
            buffer.set_string(0, line.y, "▶", Style::new());
        }
    }
    if rows.is_empty() {
        let text = if app.filter.is_empty() { " none" } else { " none matches the filter" };
        put(buffer, row(parts.table, 0), Line::styled(text, theme.tone(Tone::Dim)));
    }
}

fn heads(
    theme: Theme,
    columns: &[(usize, u16, &'static Column)],
    sort: rows::Sort,
    at: Rect,
    buffer: &mut Buffer,
) {
    let mut x = 1;
    for (column, width, config) in columns {
        let mut style = theme.strong();
        let mut text = config.title.to_owned();
        if sort.column == Some(*column) {
            style = style.add_modifier(Modifier::UNDERLINED);
            text.push(if sort.is_reversed { '▲' } else { '▼' });
        }
        let skip = usize::from(*width).saturating_sub(text.chars().count());
        let x_text = x + if config.is_right { skip as u16 } else { 0 };
        buffer.set_stringn(x_text, at.y, &text, usize::from(*width), style);
        x += width + 1;
    }
}

fn cell(
    app: &App,
    theme: Theme,
    item: &Row,
    column: usize,
    is_right: bool,
    at: Rect,
    buffer: &mut Buffer,
) {
    let width = usize::from(at.width);
    match &item.cells[column] {
        Cell::Text(text, tone) => {
            let text = shorten(text, width);
            put(buffer, at, Line::styled(text, theme.tone(*tone)));
        }
        Cell::Number(_, text) => {
            let line = Line::raw(shorten(text, width));
            let skip = if is_right { width.saturating_sub(line.width()) as u16 } else { 0 };
            put(buffer, Rect { x: at.x + skip, ..at }, line);
        }
        Cell::Load(load) => load_bar(theme, *load, at, buffer),
        Cell::Trend => {
            let (series, _) = details::series(app, width, |frame| match app.tab {
                Tab::Links => {
                    let row = history::link_row(frame, item.index);
                    let [a, b] = row.directions.map(|direction| direction.sent_bps);
                    a.max(b)
                }
                _ => history::flow_row(frame, item.index).goodput_bps,
            });
            let limit = match app.tab {
                Tab::Links => details::limit(app, item.index),
                _ => None,
            };
            details::sparkline(theme, &series, limit, None, at, buffer);
        }
    }
}

/// Text of at most `width` columns in one line.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    report::shorten(&text.replace(['\n', '\t'], " "), width)
}

const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar in eighths of a column, and the share.
fn load_bar(theme: Theme, load: f64, at: Rect, buffer: &mut Buffer) {
    let bar = usize::from(at.width).saturating_sub(6);
    if load.is_nan() {
        let text = format!("{:>1$}", "–", usize::from(at.width));
        put(buffer, at, Line::styled(text, theme.tone(Tone::Dim)));
        return;
    }
    let eighths = (load.clamp(0.0, 1.0) * bar as f64 * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8 - 1]);
    }
    let used = text.chars().count();
    text.push_str(&" ".repeat(bar - used));
    let share = format!("{:>6}", format!("{:.0} %", load * 100.0));
    let style = theme.load(load);
    put(buffer, at, Line::from(vec![Span::styled(text, style), Span::styled(share, style)]));
}

type Place = Option<(u16, u16)>;

/// Keys, a message, or an input line; returns the position of its cursor.
fn footer(app: &App, theme: Theme, at: Rect, buffer: &mut Buffer) -> Place {
    match &app.mode {
        Mode::Filter(input) => return Some(typing("filter: ", input, theme, at, buffer)),
        Mode::Mark(input) => return Some(typing("mark: ", input, theme, at, buffer)),
        Mode::Save(input) => return Some(typing("save in file: ", input, theme, at, buffer)),
        Mode::Confirm { program, action } => {
            let name = format::visible(&app.history.hello.programs[*program as usize].name);
            let name = shorten(&name, usize::from(at.width).saturating_sub(45));
            let text = format!(" {action} program {name}? Enter: yes, other keys: no");
            put(buffer, at, Line::styled(text, theme.strong()));
            return None;
        }
        _ => {}
    }
    if let Some(notice) = &app.notice {
        let tone = if notice.is_error { Tone::Warn } else { Tone::Good };
        let symbol = if notice.is_error { "!" } else { "✓" };
        let text = format!(" {symbol} {}", format::visible(&notice.text));
        let text = shorten(&text, usize::from(at.width));
        put(buffer, at, Line::styled(text, theme.tone(tone)));
        return None;
    }
    let mut keys = vec![("q", "quit"), ("?", "help"), ("Tab", "table"), ("s", "sort")];
    keys.push(("/", "filter"));
    if app.has_ended() {
        keys.extend([("←→", "time"), ("g G", "first, last")]);
    } else {
        keys.push(("Space", if app.is_paused() { "continue" } else { "pause" }));
        if app.is_paused() {
            keys.push(("←→", "time"));
        }
    }
    match app.tab {
        Tab::Links if app.is_permitted("set") => keys.push(("Enter", "change")),
        Tab::Programs if app.is_permitted("set") => keys.push(("Enter", "stop, start")),
        _ => {}
    }
    if app.is_permitted("mark") {
        keys.push(("m", "mark"));
    }
    let spans = keys.into_iter().flat_map(|(key, what)| {
        [Span::styled(format!(" {key}"), theme.strong()), Span::raw(format!(" {what} "))]
    });
    put(buffer, at, spans.collect::<Line<'_>>());
    None
}

fn typing(label: &str, input: &Input, theme: Theme, at: Rect, buffer: &mut Buffer) -> (u16, u16) {
    let label = Span::styled(format!(" {label}"), theme.strong());
    let start = label.width() as u16;
    put(buffer, at, Line::from(label));
    let at = Rect { x: at.x + start, width: at.width - start, ..at };
    field(input, Style::new(), at, buffer)
}

/// Draws a text with its end visible; returns the place of the cursor.
fn field(input: &Input, style: Style, at: Rect, buffer: &mut Buffer) -> (u16, u16) {
    let before = &input.text[..input.cursor];
    let mut start = 0;
    while Line::raw(&before[start..]).width() >= usize::from(at.width) {
        start += before[start..].chars().next().map_or(1, char::len_utf8);
    }
    buffer.set_style(at, style);
    put(buffer, at, Line::raw(&input.text[start..]));
    (at.x + Line::raw(&before[start..]).width() as u16, at.y)
}

/// A box in the middle; returns its inside.
fn popup(theme: Theme, title: &str, size: (u16, u16), area: Rect, buffer: &mut Buffer) -> Rect {
    let (width, height) = (size.0.min(area.width), size.1.min(area.height));
    let at = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    Clear.render(at, buffer);
    let title = Line::styled(format!(" {} ", shorten(title, usize::from(width - 4))), TITLE);
    let block = Block::bordered().border_style(theme.strong()).title(title);
    let inside = block.inner(at);
    block.render(at, buffer);
    Rect { x: inside.x + 1, width: inside.width - 2, ..inside }
}

fn help(theme: Theme, area: Rect, buffer: &mut Buffer) {
    let size = (70, HELP.len() as u16 + 2);
    let inside = popup(theme, "Keys and columns", size, area, buffer);
    for (y, (keys, what)) in HELP.iter().enumerate() {
        let y = inside.y + y as u16;
        if y >= inside.bottom() {
            break;
        }
        put(buffer, Rect { y, ..inside }, Line::styled(*keys, theme.strong()));
        let skip = 15;
        let at = Rect { x: inside.x + skip, y, width: inside.width - skip, ..inside };
        put(buffer, at, Line::raw(*what));
    }
}

fn form(app: &App, theme: Theme, form: &Form, area: Rect, buffer: &mut Buffer) -> Place {
    let hello = &app.history.hello;
    let name = format::visible(&hello.links[form.link as usize].name);
    let inside = popup(theme, &format!("Change link {name}"), (58, 13), area, buffer);
    let values = &form.values;
    let chosen = |texts: [String; 2]| match form.direction {
        0 => rows::of_both(texts),
        side => texts[side - 1].clone(),
    };
    let queue = |bytes: Option<u64>| bytes.map_or_else(|| "unlimited".to_owned(), format::bytes);
    let current = [
        chosen(values.rate_bps.map(rows::limit)),
        chosen(values.delay_s.map(format::seconds)),
        chosen(values.loss.map(format::share)),
        chosen(values.queue_bytes.map(queue)),
    ];
    let direction = match form.direction {
        0 => "both".to_owned(),
        side => rows::direction(hello, form.link, side - 1),
    };
    let (now, other) = if values.up { ("up", "down") } else { ("down", "up") };
    let state = if form.toggles { format!("{now} → {other}") } else { now.to_owned() };
    let mut cursor = None;
    let labels = ["direction", KEYS[0], KEYS[1], KEYS[2], KEYS[3], "state"];
    for (at, label) in labels.iter().enumerate() {
        let line = row(inside, at as u16);
        let is_active = at == form.field;
        let marker = if is_active { "▶" } else { " " };
        let style = if is_active { theme.strong() } else { Style::new() };
        put(buffer, line, Line::styled(format!("{marker} {label}"), style));
        let value = Rect { x: line.x + 12, width: 20.min(line.width - 12), ..line };
        let shown = Rect { x: line.x + 33, width: line.width.saturating_sub(33), ..line };
        match at {
            form::DIRECTION | form::STATE => {
                let text = if at == form::STATE { &state } else { &direction };
                let text = if is_active { format!("◂ {text} ▸") } else { text.clone() };
                put(buffer, Rect { width: line.width - 12, ..value }, Line::styled(text, style));
            }
            _ => {
                let box_style = Style::new().add_modifier(Modifier::UNDERLINED);
                let place = field(&form.inputs[at - 1], box_style, value, buffer);
                if is_active {
                    cursor = Some(place);
                }
                let text = shorten(&format!("now {}", current[at - 1]), shown.width.into());
                put(buffer, shown, Line::styled(text, theme.tone(Tone::Dim)));
            }
        }
    }
    form_message(theme, form, inside, buffer);
    cursor
}

/// The error of a form, or its keys.
fn form_message(theme: Theme, form: &Form, inside: Rect, buffer: &mut Buffer) {
    let width = usize::from(inside.width);
    if let Some((message, help)) = &form.problem {
        let lines = report::wrap(&format!("✗ {}", format::visible(message)), width);
        let help = help.as_deref().map(|help| report::wrap(&format::visible(help), width));
        let lines = lines.into_iter().map(|line| Line::styled(line, theme.tone(Tone::Bad)));
        let help = help.into_iter().flatten().map(Line::raw);
        for (y, line) in (form::FIELDS as u16 + 1..inside.height).zip(lines.chain(help)) {
            put(buffer, row(inside, y), line);
        }
        return;
    }
    let text = if form.sent.is_some() {
        "sent, waiting for the lab …"
    } else {
        "Enter apply  Esc cancel  ↑↓ field  ←→ choose"
    };
    let last = row(inside, inside.height - 1);
    put(buffer, last, Line::styled(text, theme.tone(Tone::Dim)));
}
