//! The state of the view: keys and messages change it.
//!
//! `draw` and `details` read this state, and the state asks `draw` for the height of the table, by
//! which the keys of a page scroll.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use report::format;
use run::live::{Answer, FinishedRun, Hello, Message, ProgramState, Request};

use crate::form::{Fields, Form, Input};
use crate::history::{History, Rates, State};
use crate::rows::{self, Row, Sort, Tab};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mode {
    Table,
    Filter(Input),
    Mark(Input),
    /// The name of a file for the changes of this session.
    Save(Input),
    Form(Box<Form>),
    /// Asks whether to stop or start a program.
    Confirm {
        program: u32,
        action: &'static str,
    },
    Help,
}

/// Action of the driver after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    None,
    Send(Request),
    /// Writes a new file with the changes of this session.
    Save(String),
    Quit,
}

/// A message line, shown until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) is_error: bool,
    pub(crate) text: String,
}

/// The name of a new file for the changes of a lab.
pub(crate) fn free_name(lab: &str, exists: impl Fn(&str) -> bool) -> String {
    let first = format!("{lab}-changes.toml");
    let others = (2..).map(|number| format!("{lab}-changes-{number}.toml"));
    std::iter::once(first.clone()).chain(others).find(|name| !exists(name)).unwrap_or(first)
}

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) history: History,
    pub(crate) tab: Tab,
    pub(crate) mode: Mode,
    pub(crate) filter: String,
    pub(crate) sorts: [Sort; 3],
    /// The selected row of each table, as position in the hello.
    pub(crate) selected: [u32; 3],
    /// The number of the shown frame; `None`: the newest.
    pub(crate) shown: Option<usize>,
    pub(crate) notice: Option<Notice>,
    pub(crate) has_color: bool,
    /// The reason of a lost connection.
    pub(crate) lost: Option<String>,
    /// Columns and rows of the terminal.
    pub(crate) size: (u16, u16),
    /// State of the shown frame, and rates over the window that ends with it.
    pub(crate) state: State,
    pub(crate) rates: Rates,
    /// The changes of this session, as `[[at]]` events.
    changes: Vec<String>,
    requests: u64,
    /// Changes of the pending requests, by request number.
    pending: BTreeMap<u64, String>,
}

impl App {
    pub(crate) fn new(hello: Hello, has_color: bool) -> Self {
        let history = History::new(hello);
        let state = history.state(0);
        let tab = match (history.hello.links.len(), history.hello.flows.len()) {
            (0, 0) => Tab::Programs,
            (0, _) => Tab::Flows,
            _ => Tab::Links,
        };
        Self {
            history,
            tab,
            mode: Mode::Table,
            filter: String::new(),
            sorts: [Sort::default(); 3],
            selected: [0; 3],
            shown: None,
            notice: None,
            has_color,
            lost: None,
            size: (80, 24),
            state,
            rates: Rates::default(),
            changes: Vec::new(),
            requests: 0,
            pending: BTreeMap::new(),
        }
    }

    /// A finished run, at its end.
    pub(crate) fn finished(run: FinishedRun, has_color: bool) -> Self {
        let mut app = Self::new(run.hello, has_color);
        for frame in run.frames {
            app.history.add(frame);
        }
        app.history.end = Some(run.end);
        app.show(None);
        app
    }

    pub(crate) fn receive(&mut self, message: Message) {
        match message {
            // The clock of a run of `sim` is paced in the page only.
            Message::Hello(_) | Message::Clock(_) => {}
            Message::Frame(frame) => {
                self.history.add(*frame);
                // A dropped frame cannot be shown.
                let first = self.history.first;
                self.show(self.shown.map(|shown| shown.max(first)));
            }
            Message::End(end) => {
                self.history.end = Some(end);
                if let Mode::Form(_) | Mode::Mark(_) | Mode::Confirm { .. } = self.mode {
                    self.mode = Mode::Table;
                    self.note(true, "the run has ended: changes are not possible");
                }
            }
            Message::Answer(answer) => self.answered(answer),
        }
    }

    fn answered(&mut self, answer: Answer) {
        let what = self.pending.remove(&answer.id).unwrap_or_default();
        let problem = answer.errors.into_iter().next().unwrap_or_default();
        if let Mode::Form(form) = &mut self.mode
            && form.sent == Some(answer.id)
        {
            if !answer.ok {
                form.sent = None;
                form.problem = Some((problem.message, problem.help));
                return;
            }
            self.mode = Mode::Table;
        }
        if !answer.ok {
            let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
            self.note(true, format!("rejected: {what}: {}{help}", problem.message));
            return;
        }
        if !answer.at_events.is_empty() {
            self.changes.push(answer.at_events);
        }
        let done = if answer.events.is_empty() { what } else { answer.events.join("; ") };
        let warnings = answer.warnings.iter().map(|text| format!("; warning: {text}"));
        let warnings: String = warnings.collect();
        self.note(!warnings.is_empty(), format!("applied at {:.1} s: {done}{warnings}", answer.at));
    }

    /// The connection to the lab is lost.
    pub(crate) fn lost(&mut self, why: String) {
        if self.history.end.is_none() {
            self.lost = Some(why);
        }
    }

    fn note(&mut self, is_error: bool, text: impl Into<String>) {
        self.notice = Some(Notice { is_error, text: text.into() });
    }

    /// Shows a frame; `None`: the newest.
    fn show(&mut self, frame: Option<usize>) {
        let is_same = self.shown.is_some() && frame == self.shown;
        self.shown = frame;
        if !is_same {
            let number = self.frame();
            self.state = self.history.state(number);
            self.rates = self.history.rates(number);
        }
    }

    /// The number of the shown frame.
    pub(crate) fn frame(&self) -> usize {
        self.shown.unwrap_or_else(|| self.history.last())
    }

    /// Whether newer frames of the lab are not shown.
    pub(crate) fn is_paused(&self) -> bool {
        self.shown.is_some() && !self.has_ended()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.history.end.is_some() || self.lost.is_some()
    }

    /// The rows of the selected table.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let rows = rows::rows(&self.history.hello, &self.state, &self.rates, self.tab);
        rows::arrange(rows, &self.filter, self.sorts[self.tab.index()])
    }

    /// The place of the selected row; the first if that is not shown.
    pub(crate) fn place(&self, rows: &[Row]) -> usize {
        let selected = self.selected[self.tab.index()];
        rows.iter().position(|row| row.index == selected).unwrap_or_default()
    }

    pub(crate) fn is_permitted(&self, command: &str) -> bool {
        !self.has_ended() && self.history.hello.commands.iter().any(|known| known == command)
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Action {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        self.notice = None;
        match std::mem::replace(&mut self.mode, Mode::Table) {
            Mode::Table if has_control => {}
            Mode::Table => return self.table_key(key),
            // Any key closes it.
            Mode::Help => {}
            Mode::Filter(input) => self.filter_key(input, key),
            Mode::Mark(input) => return self.line_key(input, key, Mode::Mark, Self::mark),
            Mode::Save(input) => {
                return self.line_key(input, key, Mode::Save, |_, name| Action::Save(name));
            }
            Mode::Form(form) => return self.form_key(form, key),
            Mode::Confirm { program, action } => return self.confirm_key(program, action, key),
        }
        Action::None
    }

    fn filter_key(&mut self, mut input: Input, key: KeyEvent) {
        match key.code {
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter => {}
            KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => {
                self.move_selection(key.code);
                self.mode = Mode::Filter(input);
            }
            _ => {
                input.key(key);
                self.filter.clone_from(&input.text);
                self.mode = Mode::Filter(input);
            }
        }
    }

    /// Edits a line; `act` gets its text after Enter.
    fn line_key(
        &mut self,
        mut input: Input,
        key: KeyEvent,
        mode: fn(Input) -> Mode,
        act: fn(&mut Self, String) -> Action,
    ) -> Action {
        match key.code {
            KeyCode::Esc => return Action::None,
            KeyCode::Enter if !input.text.trim().is_empty() => {
                return act(self, input.text.trim().to_owned());
            }
            KeyCode::Enter => {}
            _ => _ = input.key(key),
        }
        self.mode = mode(input);
        Action::None
    }

    fn mark(&mut self, text: String) -> Action {
        let id = self.begin(format!("mark `{text}`"));
        Action::Send(Request::Mark { id, text })
    }

    /// The changes of this session for the end of the lab file, as the page saves them.
    pub(crate) fn changes_file(&self) -> String {
        let lab = serde_json::Value::from(self.history.hello.lab.as_str());
        let changes = self.changes.concat();
        format!("# Changes made in the live view of lab {lab}: append them to its file.\n{changes}")
    }

    /// Reports whether a file has been written.
    pub(crate) fn saved(&mut self, name: &str, result: io::Result<()>) {
        match result {
            Ok(()) => {
                let changes = format::plural(self.changes.len(), "change");
                self.note(false, format!("saved {changes} in {name}"));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.note(true, format!("{name} exists; choose another name"));
            }
            Err(error) => self.note(true, format!("cannot write {name}: {error}")),
        }
    }

    fn form_key(&mut self, mut form: Box<Form>, key: KeyEvent) -> Action {
        let mut action = Action::None;
        match key.code {
            KeyCode::Esc => return action,
            // The answer closes the form.
            _ if form.sent.is_some() => {}
            KeyCode::Enter => match form.fields() {
                Ok(fields) => {
                    let (id, request) = self.set(fields);
                    form.sent = Some(id);
                    action = Action::Send(request);
                }
                Err(problem) => form.problem = Some(problem),
            },
            _ => form.key(key),
        }
        self.mode = Mode::Form(form);
        action
    }

    fn confirm_key(&mut self, program: u32, action: &str, key: KeyEvent) -> Action {
        if !matches!(key.code, KeyCode::Enter | KeyCode::Char('y')) {
            return Action::None;
        }
        let name = &self.history.hello.programs[program as usize].name;
        Action::Send(self.set(vec![(format!("program.{name}"), action.to_owned())]).1)
    }

    /// A request to change fields, and its number.
    fn set(&mut self, fields: Fields) -> (u64, Request) {
        let texts = fields.iter().map(|(field, value)| format!("{field} = {value}"));
        let id = self.begin(texts.collect::<Vec<_>>().join(", "));
        (id, Request::Set { id, fields })
    }

    /// The number of a new request.
    fn begin(&mut self, what: String) -> u64 {
        self.requests += 1;
        self.note(false, format!("sent: {what}"));
        self.pending.insert(self.requests, what);
        self.requests
    }

    fn table_key(&mut self, key: KeyEvent) -> Action {
        let window = self.history.window();
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Tab => self.tab = Tab::ALL[(self.tab.index() + 1) % 3],
            KeyCode::BackTab => self.tab = Tab::ALL[(self.tab.index() + 2) % 3],
            KeyCode::Char(digit @ '1'..='3') => self.tab = Tab::ALL[digit as usize - '1' as usize],
            KeyCode::Char('s') => self.next_sort(),
            KeyCode::Char('S') => {
                let sort = &mut self.sorts[self.tab.index()];
                sort.is_reversed = !sort.is_reversed;
            }
            KeyCode::Char('/') => {
                let cursor = self.filter.len();
                self.mode = Mode::Filter(Input { text: self.filter.clone(), cursor });
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => self.pause(),
            KeyCode::Left => self.seek(-window),
            KeyCode::Right => self.seek(window),
            KeyCode::Char(',') => self.step_frame(false),
            KeyCode::Char('.') => self.step_frame(true),
            KeyCode::Char('g') => self.show(Some(self.history.first)),
            KeyCode::Char('G') => self.show(None),
            KeyCode::Char('m') => {
                if self.check_permitted("mark") {
                    self.mode = Mode::Mark(Input::default());
                }
            }
            KeyCode::Char('w') if self.changes.is_empty() => {
                self.note(true, "no changes of this session to save");
            }
            KeyCode::Char('w') => {
                let text = free_name(&self.history.hello.lab, |name| Path::new(name).exists());
                self.mode = Mode::Save(Input { cursor: text.len(), text });
            }
            KeyCode::Enter => self.open_change(),
            code => self.move_selection(code),
        }
        Action::None
    }

    /// Whether a request is possible; otherwise reports why not.
    fn check_permitted(&mut self, command: &str) -> bool {
        if self.is_permitted(command) {
            return true;
        }
        let why = if self.has_ended() {
            "the run has ended: changes are not possible"
        } else {
            "the view is read-only"
        };
        self.note(true, why);
        false
    }

    /// Asks for changes of the selected link or program.
    fn open_change(&mut self) {
        if self.tab == Tab::Flows {
            self.note(true, "flows cannot be changed: press 1 for links, 3 for programs");
            return;
        }
        let rows = self.rows();
        let Some(index) = rows.get(self.place(&rows)).map(|row| row.index) else { return };
        if !self.check_permitted("set") {
            return;
        }
        // The current values, also while the view is paused.
        let now = self.history.state(self.history.last());
        if self.tab == Tab::Links {
            let name = &self.history.hello.links[index as usize].name;
            let form = Form::new(index, name, &now.links[index as usize]);
            self.mode = Mode::Form(Box::new(form));
            return;
        }
        let action = match now.programs[index as usize].state {
            ProgramState::Running | ProgramState::Ready => "stop",
            _ => "start",
        };
        self.mode = Mode::Confirm { program: index, action };
    }

    fn next_sort(&mut self) {
        let shown = self
            .tab
            .columns()
            .iter()
            .enumerate()
            .filter(|(_, column)| column.from <= self.size.0 && column.title != rows::TREND);
        let current = self.sorts[self.tab.index()].column;
        let mut later = shown.map(|(at, _)| at).filter(|at| current.is_none_or(|now| *at > now));
        self.sorts[self.tab.index()] = Sort { column: later.next(), is_reversed: false };
    }

    fn pause(&mut self) {
        if self.has_ended() {
            self.note(false, "the run has ended: Left and Right move through its time");
        } else if self.shown.is_some() {
            self.show(None);
        } else {
            self.show(Some(self.frame()));
        }
    }

    /// Moves to another time.
    fn seek(&mut self, seconds: f64) {
        let (old, last) = (self.frame(), self.history.last());
        let new = match self.history.later(old, seconds) {
            new if new == old && seconds > 0.0 => (old + 1).min(last),
            new => new,
        };
        self.show(if new == last && seconds > 0.0 { None } else { Some(new) });
    }

    fn step_frame(&mut self, is_forward: bool) {
        let (old, last) = (self.frame(), self.history.last());
        let new = if is_forward { (old + 1).min(last) } else { old.saturating_sub(1) };
        let new = new.max(self.history.first);
        self.show(if is_forward && new == last { None } else { Some(new) });
    }

    fn move_selection(&mut self, code: KeyCode) {
        let rows = self.rows();
        let place = self.place(&rows);
        let page = crate::draw::table_height(self.size, &self.history).max(1);
        let last = rows.len().saturating_sub(1);
        let new = match code {
            KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => place + 1,
            KeyCode::PageUp => place.saturating_sub(page),
            KeyCode::PageDown => place + page,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return,
        };
        if let Some(row) = rows.get(new.min(last)) {
            self.selected[self.tab.index()] = row.index;
        }
    }
}
