//! Tests of keys, messages and pictures, without a terminal.

use std::io::ErrorKind;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use run::live::{
    Answer, DirectionRow, End, EventLine, FinishedRun, FlowRow, Frame, Hello, HelloFlow, HelloLink,
    HelloNode, HelloProgram, LinkChange, LinkRow, LinkValues, LogLine, MachineState, Message,
    Problem, ProgramRow, ProgramState, Request, SCHEMA, Source,
};
use run::record::{Clock, NodeRole};

use super::app::{Action, Mode};
use super::rows::Cell;
use super::*;

const NAMES: [&str; 4] = ["h2", "h10", "core", "r1"];

fn values(rate: Option<f64>) -> LinkValues {
    LinkValues {
        rate_bps: [rate; 2],
        delay_s: [0.005; 2],
        loss: [0.0, 0.01],
        queue_bytes: [rate.map(|_| 64_000); 2],
        up: true,
    }
}

/// Four links, the last one without limit; one flow, one program.
fn hello(source: Source) -> Hello {
    let node = |name: &&str| HelloNode {
        name: (*name).to_owned(),
        role: NodeRole::Host,
        x: 0.0,
        y: 0.0,
        programs: Vec::new(),
    };
    let link = |at: u32| HelloLink {
        name: NAMES[at as usize].to_owned(),
        ends: [at, (at + 1) % 4],
        ifaces: ["eth0".to_owned(), "eth1".to_owned()],
        values: values((at < 3).then_some(1e7)),
    };
    let flow = HelloFlow {
        name: "bulk".to_owned(),
        from: 0,
        to: 2,
        kind: "TCP cubic".to_owned(),
        path: vec![(0, 0), (1, 0)],
    };
    Hello {
        schema: SCHEMA.to_owned(),
        lab: "pair".to_owned(),
        seed: 7,
        clock: Clock::Wall,
        source,
        duration_s: Some(60.0),
        interval_s: 0.1,
        version: String::new(),
        run: String::new(),
        read_only: false,
        commands: vec!["set".to_owned(), "mark".to_owned()],
        nodes: ["alice", "bob", "carol", "dave"].iter().map(node).collect(),
        links: (0..4).map(link).collect(),
        flows: vec![flow],
        programs: vec![HelloProgram { name: "server".to_owned(), node: 1 }],
        systems: Vec::new(),
    }
}

/// The frame that ends at `number` × 0.1 s: 1, 2, 3 and 4 Mbit/s on the links.
fn frame(number: u32) -> Frame {
    let row = |link: u32| {
        let sent_bps = f64::from(link + 1) * 1e6;
        let queue_bytes = 10_000 - 1000 * u64::from(link);
        let (dropped_packets, queue_delay_s) = (1, 0.0);
        let direction = DirectionRow { sent_bps, queue_bytes, dropped_packets, queue_delay_s };
        LinkRow { link, directions: [direction, DirectionRow::default()] }
    };
    let bulk = FlowRow { flow: 0, goodput_bps: 1e6, rtt_s: Some(0.0123), lost_packets: 2 };
    let machine = MachineState {
        late_p50_s: 2e-5,
        late_p99_s: 1.2e-4,
        late_max_s: 8e-4,
        trusted: true,
        ..MachineState::default()
    };
    Frame {
        t: f64::from(number) / 10.0,
        span: 0.1,
        links: (0..4).map(row).collect(),
        flows: vec![bulk],
        machine: Some(machine),
        ..Frame::default()
    }
}

/// A lab after 2 s.
fn live() -> App {
    let mut app = App::new(hello(Source::Live), true);
    let event = EventLine { at: 0.5, text: "link core: loss 1 %".to_owned() };
    let line = |at, level: &str, source: &str, text: &str| LogLine {
        at,
        level: level.to_owned(),
        source: source.to_owned(),
        text: text.to_owned(),
    };
    for number in 1..=20 {
        let mut frame = frame(number);
        if number == 5 {
            frame.events = vec![event.clone()];
            frame.log = vec![
                line(0.5, "info", "event", &event.text),
                line(0.5, "error", "server", "ended: exit status 1"),
            ];
            let (program, state) = (0, ProgramState::Failed);
            frame.programs = vec![ProgramRow { program, state, exit_code: Some(1) }];
        }
        app.receive(Message::Frame(Box::new(frame)));
    }
    app
}

/// A run of 60 s, in which a link goes down at 30 s.
fn finished() -> App {
    let frames = (1..=60).map(|second| {
        let mut frame = Frame { t: f64::from(second), span: 1.0, ..frame(0) };
        if second == 30 {
            let values = LinkValues { up: false, ..values(Some(1e7)) };
            frame.changes = vec![LinkChange { link: 1, values }];
        }
        frame
    });
    let end = End {
        t: 60.0,
        outcome: "failed".to_owned(),
        reasons: vec!["program server failed".to_owned()],
        exit_code: 5,
        report: None,
    };
    let mut hello = hello(Source::Finished);
    (hello.interval_s, hello.commands) = (1.0, Vec::new());
    App::finished(FinishedRun { hello, frames: frames.collect(), end }, true)
}

fn press(app: &mut App, code: KeyCode) -> Action {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Types characters; returns the action of the last one.
fn types(app: &mut App, text: &str) -> Action {
    text.chars().fold(Action::None, |_, c| press(app, KeyCode::Char(c)))
}

fn buffer(app: &App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(app, frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn screen(app: &App, width: u16, height: u16) -> String {
    let buffer = buffer(app, width, height);
    let lines = buffer.content.chunks(usize::from(width)).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn names(app: &App) -> Vec<String> {
    let name = |row: &rows::Row| match &row.cells[0] {
        Cell::Text(name, _) => name.clone(),
        other => panic!("{other:?}"),
    };
    app.rows().iter().map(name).collect()
}

/// The lab time that is shown, in tenths of a second.
fn tenths(app: &App) -> u64 {
    (app.state.t * 10.0).round() as u64
}

#[test]
fn draws_live_lab_in_80_columns() {
    insta::assert_snapshot!(screen(&live(), 80, 24));
}

#[test]
fn draws_live_lab_in_120_columns() {
    insta::assert_snapshot!(screen(&live(), 120, 40));
}

#[test]
fn draws_finished_run() {
    let mut app = finished();
    press(&mut app, KeyCode::Tab);
    insta::assert_snapshot!(screen(&app, 80, 24));
}

#[test]
fn draws_form_with_invalid_value() {
    let mut app = live();
    press(&mut app, KeyCode::Enter);
    types(&mut app, "10 Mbit");
    press(&mut app, KeyCode::Enter);
    insta::assert_snapshot!(screen(&app, 80, 24));
}

#[test]
fn draws_every_terminal_size() {
    for mut app in [live(), finished()] {
        for keys in ["1", "2", "3", "?"] {
            types(&mut app, keys);
            for (width, height) in [(1, 1), (59, 16), (60, 16), (61, 17), (250, 90)] {
                let screen = screen(&app, width, height);
                let is_small = width < 60;
                assert_eq!(screen.contains(" q quit "), !is_small, "{width}x{height}:\n{screen}");
            }
        }
    }
    assert!(screen(&live(), 40, 10).starts_with("terminal too small: 40x10\nneeds 60x16"));
}

#[test]
fn sorts_by_columns_and_reverses() {
    let mut app = live();
    assert_eq!(names(&app), NAMES);
    types(&mut app, "s");
    assert_eq!(names(&app), ["core", "h2", "h10", "r1"], "digits as numbers");
    types(&mut app, "S");
    assert_eq!(names(&app), ["r1", "h10", "h2", "core"]);
    // State, then load: the largest first, links without a limit last, also in reverse.
    types(&mut app, "ss");
    assert_eq!(names(&app), ["core", "h10", "h2", "r1"]);
    types(&mut app, "S");
    assert_eq!(names(&app), ["h2", "h10", "core", "r1"]);
    // Each table has its own order.
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.sorts[app.tab.index()], rows::Sort::default());
}

#[test]
fn selection_stays_on_link_after_sorting() {
    let mut app = live();
    press(&mut app, KeyCode::Down);
    assert_eq!(app.place(&app.rows()), 1);
    types(&mut app, "ss");
    types(&mut app, "sS");
    let rows = app.rows();
    assert_eq!(rows[app.place(&rows)].index, 1, "h10");
    press(&mut app, KeyCode::End);
    press(&mut app, KeyCode::PageUp);
    press(&mut app, KeyCode::Up);
    assert_eq!(app.place(&app.rows()), 0);
}

#[test]
fn filters_while_typing_until_escape() {
    let mut app = live();
    types(&mut app, "/h1");
    assert_eq!(names(&app), ["h10"]);
    assert!(screen(&app, 80, 24).contains("1 Links 1 of 4"));
    press(&mut app, KeyCode::Backspace);
    assert_eq!(names(&app), ["h2", "h10"]);
    press(&mut app, KeyCode::Enter);
    // No longer typing: `q` is a command, and the filter stays.
    assert_eq!(app.mode, Mode::Table);
    assert_eq!(names(&app), ["h2", "h10"]);
    press(&mut app, KeyCode::Esc);
    assert_eq!(names(&app), NAMES);
    types(&mut app, "/nothing");
    assert!(screen(&app, 80, 24).contains("none matches the filter"));
    press(&mut app, KeyCode::Esc);
    assert_eq!((names(&app).len(), app.mode), (4, Mode::Table));
}

#[test]
fn pause_freezes_screen() {
    let mut app = live();
    types(&mut app, " ");
    let mut later = frame(21);
    later.links[0].directions[0].sent_bps = 9e6;
    app.receive(Message::Frame(Box::new(later)));
    let paused = screen(&app, 80, 24);
    assert!(paused.contains("2.0 s of 1:00.0  ‖ PAUSED, the lab goes on: 2.1 s"), "{paused}");
    assert!(!paused.contains("1.8 Mbit/s"), "{paused}");
    types(&mut app, " ");
    let goes_on = screen(&app, 80, 24);
    assert!(goes_on.contains("2.1 s of 1:00.0  ● running"), "{goes_on}");
    // The mean of nine frames with 1 Mbit/s and one with 9 Mbit/s.
    assert!(goes_on.contains("1.8 Mbit/s"), "{goes_on}");
}

#[test]
fn seeks_back_in_running_lab() {
    let mut app = live();
    press(&mut app, KeyCode::Left);
    assert_eq!((tenths(&app), app.is_paused()), (10, true));
    types(&mut app, ",");
    assert_eq!(tenths(&app), 9);
    types(&mut app, "g,");
    assert_eq!(tenths(&app), 1);
    types(&mut app, "G");
    assert_eq!((tenths(&app), app.is_paused()), (20, false));
}

#[test]
fn reports_invalid_rate_without_sending_it() {
    let mut app = live();
    press(&mut app, KeyCode::Enter);
    types(&mut app, "10");
    assert_eq!(press(&mut app, KeyCode::Enter), Action::None);
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("✗ rate: `10` needs a unit"), "{picture}");
    assert!(picture.contains("write for example `10 Mbit/s`"), "{picture}");
    // Editing removes the error; without a value there is nothing to send.
    press(&mut app, KeyCode::Backspace);
    press(&mut app, KeyCode::Backspace);
    assert!(!screen(&app, 80, 24).contains("needs a unit"));
    assert_eq!(press(&mut app, KeyCode::Enter), Action::None);
    assert!(screen(&app, 80, 24).contains("all fields are empty"));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Table);
}

/// Changes delay and state of `h10` in its second direction.
fn change(app: &mut App) -> Action {
    press(app, KeyCode::Down);
    press(app, KeyCode::Enter);
    for key in [KeyCode::Up, KeyCode::Right, KeyCode::Right, KeyCode::Down, KeyCode::Down] {
        press(app, key);
    }
    types(app, "9 ms");
    for _ in 0..3 {
        press(app, KeyCode::Tab);
    }
    types(app, " ");
    press(app, KeyCode::Enter)
}

#[test]
fn form_sends_only_changed_fields() {
    let mut app = live();
    let fields = [("link.h10.down.delay", "9 ms"), ("link.h10.state", "down")];
    let fields = fields.map(|(field, value)| (field.to_owned(), value.to_owned()));
    let request = Request::Set { id: 1, fields: fields.to_vec() };
    assert_eq!(change(&mut app), Action::Send(request));
    // A second Enter sends nothing.
    assert_eq!(press(&mut app, KeyCode::Enter), Action::None);
    let problem = Problem { message: "unknown".to_owned(), help: Some("other".to_owned()) };
    app.receive(Message::Answer(Answer { id: 1, errors: vec![problem], ..Answer::default() }));
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("✗ unknown") && picture.contains("other"), "{picture}");
    assert!(matches!(press(&mut app, KeyCode::Enter), Action::Send(_)));
    let events = vec!["link h10 down: delay 9 ms".to_owned()];
    app.receive(Message::Answer(Answer { id: 2, ok: true, at: 2.5, events, ..Answer::default() }));
    assert_eq!(app.mode, Mode::Table);
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("✓ applied at 2.5 s: link h10 down: delay 9 ms"), "{picture}");
}

#[test]
fn stops_and_starts_the_selected_program_after_confirmation() {
    let mut app = live();
    types(&mut app, "3");
    assert!(screen(&app, 80, 24).contains(" Enter stop, start "));
    // The program has failed: it can be started.
    press(&mut app, KeyCode::Enter);
    let picture = screen(&app, 80, 24);
    assert!(picture.contains(" start program server? Enter: yes, other keys: no"), "{picture}");
    assert_eq!(types(&mut app, "n"), Action::None);
    assert_eq!(app.mode, Mode::Table);
    let running = ProgramRow { program: 0, state: ProgramState::Ready, exit_code: None };
    app.receive(Message::Frame(Box::new(Frame { programs: vec![running], ..frame(21) })));
    press(&mut app, KeyCode::Enter);
    let fields = vec![("program.server".to_owned(), "stop".to_owned())];
    let request = Request::Set { id: 1, fields };
    assert_eq!(press(&mut app, KeyCode::Enter), Action::Send(request));
    let refused = Answer { id: 1, ..Answer::refused("program server has ended already") };
    app.receive(Message::Answer(refused));
    let picture = screen(&app, 100, 24);
    let expected = "! rejected: program.server = stop: program server has ended already";
    assert!(picture.contains(expected), "{picture}");
}

/// The answer to a successful request.
fn done(id: u64, at_events: &str) -> Message {
    let at_events = at_events.to_owned();
    Message::Answer(Answer { id, ok: true, at_events, ..Answer::default() })
}

#[test]
fn saves_session_changes_in_format_of_page() {
    let mut app = live();
    types(&mut app, "w");
    assert!(screen(&app, 80, 24).contains("! no changes of this session to save"));
    app.history.hello.lab = "two \"words\"".to_owned();
    let set = "\n[[at]]\ntime = \"4 s\"\nlink = \"core\"\nset = { delay = \"100 ms\" }\n";
    app.receive(done(1, set));
    app.receive(done(2, "\n# 5 s: mark \"healed\"\n"));
    assert_eq!(app.changes_file(), include_str!("../../../../web/tests/changes.toml"));
    app.history.hello.lab = "pair".to_owned();
    types(&mut app, "w");
    let picture = screen(&app, 80, 24);
    assert!(picture.contains(" save in file: pair-changes.toml"), "{picture}");
    for _ in 0..5 {
        press(&mut app, KeyCode::Backspace);
    }
    types(&mut app, ".txt");
    let name = "pair-changes.txt".to_owned();
    assert_eq!(press(&mut app, KeyCode::Enter), Action::Save(name.clone()));
    app.saved(&name, Err(ErrorKind::AlreadyExists.into()));
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("! pair-changes.txt exists; choose another"), "{picture}");
    app.saved(&name, Ok(()));
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("✓ saved 2 changes in pair-changes.txt"), "{picture}");
}

#[test]
fn default_file_name_is_unused() {
    let exists = |name: &str| ["pair-changes.toml", "pair-changes-2.toml"].contains(&name);
    assert_eq!(app::free_name("pair", exists), "pair-changes-3.toml");
    assert_eq!(app::free_name("pair", |_| false), "pair-changes.toml");
}

#[test]
fn sends_trimmed_mark() {
    let mut app = live();
    types(&mut app, "m");
    assert_eq!(press(&mut app, KeyCode::Enter), Action::None, "no text");
    types(&mut app, " wrld ");
    for _ in 0..4 {
        press(&mut app, KeyCode::Left);
    }
    types(&mut app, "o");
    press(&mut app, KeyCode::End);
    let request = Request::Mark { id: 1, text: "world".to_owned() };
    assert_eq!(press(&mut app, KeyCode::Enter), Action::Send(request));
}

#[test]
fn read_only_view_sends_no_changes() {
    let mut app = live();
    app.history.hello.commands.clear();
    for tab in ["1", "3"] {
        for code in [KeyCode::Enter, KeyCode::Char('m')] {
            types(&mut app, tab);
            press(&mut app, code);
            assert_eq!(app.mode, Mode::Table);
            assert!(screen(&app, 80, 24).contains("the view is read-only"));
        }
    }
}

#[test]
fn shows_last_state_and_outcome_after_end() {
    let mut app = live();
    press(&mut app, KeyCode::Enter);
    let (outcome, reasons) = ("failed".to_owned(), vec!["goodput is too small".to_owned()]);
    app.receive(Message::End(End { t: 2.0, outcome, reasons, ..End::default() }));
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("✗ failed") && picture.contains("failed: goodput is too small"));
    assert!(picture.contains("3 Mbit/s") && picture.contains("changes are not possible"));
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.mode, Mode::Table);
    assert_eq!(types(&mut app, "q"), Action::Quit);
}

#[test]
fn shows_lost_connection() {
    let mut app = live();
    app.lost("the lab ended without a result".to_owned());
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("✗ connection lost") && picture.contains("without a result"));
}

#[test]
fn seeks_in_finished_run() {
    let mut app = finished();
    assert_eq!((tenths(&app), app.state.links[1].up), (600, false));
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("1:00.0 of 1:00.0  ✗ failed"), "{picture}");
    types(&mut app, "g");
    assert_eq!((tenths(&app), app.state.links[1].up), (10, true));
    press(&mut app, KeyCode::Left);
    assert_eq!(tenths(&app), 10);
    for _ in 0..29 {
        press(&mut app, KeyCode::Right);
    }
    assert_eq!((tenths(&app), app.state.links[1].up), (300, false));
    press(&mut app, KeyCode::Left);
    assert_eq!((tenths(&app), app.state.links[1].up), (290, true));
    assert!(!app.is_paused());
    types(&mut app, "G");
    assert_eq!(tenths(&app), 600);
    press(&mut app, KeyCode::Enter);
    assert!(screen(&app, 80, 24).contains("the run has ended"));
}

#[test]
fn bounds_memory_of_long_lab() {
    let mut app = live();
    types(&mut app, " ");
    for number in 21..=4000 {
        let mut frame = frame(number);
        if number == 30 {
            let values = LinkValues { up: false, ..values(None) };
            frame.changes = vec![LinkChange { link: 0, values }];
        }
        app.receive(Message::Frame(Box::new(frame)));
    }
    assert_eq!((app.history.frames.len(), app.history.first), (3000, 1000));
    // The paused picture is the oldest frame, with changes before it.
    assert_eq!((app.frame(), tenths(&app), app.state.links[0].up), (1000, 1001, false));
}

#[test]
fn uses_weights_and_symbols_without_colours() {
    let mut app = live();
    let colored = |buffer: &Buffer| {
        let cells = buffer.content.iter();
        cells.filter(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset)).count()
    };
    assert!(colored(&buffer(&app, 80, 24)) > 0);
    app.has_color = false;
    for keys in ["1", "2", "3", "?"] {
        types(&mut app, keys);
        assert_eq!(colored(&buffer(&app, 80, 24)), 0);
    }
    let reversed = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
    assert!(buffer(&app, 80, 24).content.iter().any(|cell| reversed(&cell)));
    assert_eq!(screen(&app, 80, 24), {
        app.has_color = true;
        screen(&app, 80, 24)
    });
}

#[test]
fn replaces_control_characters() {
    let mut app = live();
    let text = "a\u{1b}[31mb\u{202e}c\rd".to_owned();
    let log = vec![LogLine { at: 2.1, level: "info".to_owned(), source: "x".to_owned(), text }];
    app.receive(Message::Frame(Box::new(Frame { log, ..frame(21) })));
    let picture = screen(&app, 80, 24);
    assert!(picture.contains("x: a\u{fffd}[31mb\u{fffd}c\u{fffd}d"), "{picture}");
}

#[test]
fn control_c_quits_in_every_mode() {
    for keys in ["", "/x", "mx", "?", "\n"] {
        let mut app = live();
        for c in keys.chars() {
            press(&mut app, if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) });
        }
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.key(key), Action::Quit);
    }
}
