use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use base::{Bytes, Direction, FlowId, LinkId, Span, Time};
use lab::plan::Plan;

use super::*;
use crate::record::{Clock, Engine};
use crate::{
    BundleSample, DropReason, FlowSample, Level, LinkSample, Schedule, Start, SubflowSample,
};

/// Two hosts on a router, and a third link that duplicates a path; the second link is slow.
const LAB: &str = r#"
[lab]
name = "pair"
[node.a]
[node.b]
[node.r]
kind = "router"
[[link]]
name = "in"
ends = ["a", "r"]
[[link]]
name = "out"
ends = ["r", "b"]
rate = "10 Mbit/s"
delay = "20 ms"
queue = "10 packets"
[[flow]]
name = "bulk"
from = "a"
to = "b"
[[program]]
name = "web"
node = "b"
run = "true"
"#;

fn parse(text: &str) -> Plan {
    lab::parse("lab.toml", text, Path::new(".")).unwrap().plans.remove(0)
}

/// The first message of a run of the plan.
fn hello_of(plan: &Plan) -> Hello {
    let start = Start { id: "0", repeat: "", clock: Clock::Wall, engine: Engine::default() };
    Hello::of(plan, &crate::begin(plan, start), Path::new("runs/pair-0"), Source::Live)
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

const INTERVAL: Span = Span::from_millis(100);

fn link_sample(end: u64, bytes: u64, queue: u64, drops: u64) -> LinkSample {
    let mut sample = LinkSample::empty(at(end), INTERVAL, LinkId(1), Direction::Up);
    (sample.sent_bytes, sample.queue_max_bytes) = (bytes, queue);
    sample.queue_delay_max = Some(Span::from_millis(queue / 1000));
    sample.drops[DropReason::QueueFull.index()] = drops;
    sample.drops[DropReason::TtlExceeded.index()] = 7;
    sample
}

fn flow_sample(end: u64, bytes: u64, rtt: Option<u64>) -> FlowSample {
    let mut sample = FlowSample::empty(at(end), INTERVAL, FlowId(0));
    sample.received_bytes = bytes;
    sample.rtt = rtt.map(Span::from_millis);
    (sample.retransmits, sample.lost) = (Some(2), None);
    sample
}

#[test]
fn frame_sums_bytes_and_drops_and_keeps_maxima() {
    let mut builder = FrameBuilder::new(&parse(LAB), Span::from_millis(200));
    builder.link(&link_sample(100, 100_000, 3_000, 1));
    builder.link(&link_sample(200, 25_000, 9_000, 2));
    builder.flow(&flow_sample(100, 10_000, Some(50)));
    builder.flow(&flow_sample(200, 15_000, None));
    // Samples of the next frame arrive before this one is complete.
    builder.link(&link_sample(300, 1, 0, 0));
    assert_eq!(builder.poll(at(299)), None);
    let frame = builder.poll(at(300)).unwrap();
    assert_eq!((frame.t, frame.span), (0.2, 0.2));
    // (100,000 + 25,000) B × 8 / 0.2 s = 5 Mbit/s.
    let up = DirectionRow {
        sent_bps: 5e6,
        queue_bytes: 9_000,
        dropped_packets: 3,
        queue_delay_s: 0.009,
    };
    let directions = [up, DirectionRow::default()];
    assert_eq!(frame.links, [LinkRow { link: 1, directions }]);
    // 25,000 B × 8 / 0.2 s = 1 Mbit/s; two retransmissions in each sample.
    let row = FlowRow { flow: 0, goodput_bps: 1e6, rtt_s: Some(0.05), lost_packets: 4 };
    assert_eq!(frame.flows, [row]);
    assert_eq!(builder.poll(at(400)), None);
}

#[test]
fn late_samples_and_skipped_frames_lose_no_bytes() {
    let mut builder = FrameBuilder::new(&parse(LAB), INTERVAL);
    builder.link(&link_sample(100, 1_000, 0, 0));
    assert!((builder.poll(at(200)).unwrap().links[0].directions[0].sent_bps - 80e3).abs() < 1e-6);
    // The sample of the first frame arrives after it.
    builder.link(&link_sample(100, 500, 0, 0));
    for end in [200, 300, 400, 500] {
        builder.link(&link_sample(end, 1_000, 0, 0));
    }
    // Nothing was polled for four frames: one frame of 300 ms has three of them.
    let frame = builder.poll(at(599)).unwrap();
    assert_eq!((frame.t, frame.span), (0.4, 0.3));
    let bytes = frame.links[0].directions[0].sent_bps * frame.span / 8.0;
    assert!((bytes - 3_500.0).abs() < 1e-6, "{bytes}");
    let rest = builder.finish(at(530));
    let [last] = &rest[..] else { panic!("{rest:?}") };
    assert!((last.t - 0.53).abs() < 1e-9, "{last:?}");
    assert!((last.links[0].directions[0].sent_bps * last.span / 8.0 - 1_000.0).abs() < 1e-6);
}

#[test]
fn last_frame_has_at_least_half_of_the_length() {
    let ends = |end| {
        let frames = FrameBuilder::new(&parse(LAB), INTERVAL).finish(at(end));
        frames.into_iter().map(|frame| (frame.t, frame.span)).collect::<Vec<_>>()
    };
    assert_eq!(ends(249), [(0.1, 0.1), (0.249, 0.149)]);
    assert_eq!(ends(250), [(0.1, 0.1), (0.2, 0.1), (0.25, 0.05)]);
    assert_eq!(ends(20), [(0.02, 0.02)]);
    assert_eq!(ends(0), [(0.0, 0.1)]);
}

#[test]
fn live_frames_have_whole_sampling_intervals_of_at_least_100_ms() {
    let span = |millis| live_span(Span::from_millis(millis));
    assert_eq!(span(100), Span::from_millis(100));
    assert_eq!(span(30), Span::from_millis(120));
    assert_eq!(span(1_000), Span::from_secs(1));
}

#[test]
fn frame_and_state_contain_changes_of_their_interval() {
    let plan = Arc::new(parse(LAB));
    let mut builder = FrameBuilder::new(&plan, INTERVAL);
    let mut schedule = Schedule::new(Arc::clone(&plan));
    let fields = [("link.out.up.rate".to_owned(), "5 Mbit/s".to_owned())];
    for change in schedule.set(at(150), &fields, Path::new("")).unwrap().0 {
        builder.change(&change);
    }
    builder.event(at(150), "slower");
    builder.program(at(20), 0, ProgramState::Running, None);
    builder.program(at(160), 0, ProgramState::Failed, Some(3));
    builder.log(at(170), Level::Warn, "web", "ended");
    let first = builder.poll(at(200)).unwrap();
    let row = |state, exit_code| ProgramRow { program: 0, state, exit_code };
    assert_eq!(first.programs, [row(ProgramState::Running, None)]);
    assert!(first.changes.is_empty() && first.events.is_empty() && first.log.is_empty());
    let second = builder.poll(at(300)).unwrap();
    assert_eq!(second.programs, [row(ProgramState::Failed, Some(3))]);
    let [change] = &second.changes[..] else { panic!("{second:?}") };
    assert_eq!((change.link, change.values.rate_bps), (1, [Some(5e6), Some(1e7)]));
    assert_eq!(second.events[0].text, "slower");
    assert_eq!((second.log[0].level.as_str(), second.log[0].at), ("warning", 0.17));
    let state = builder.state();
    assert_eq!((state.t, state.span), (0.2, 0.0));
    assert_eq!((&state.changes, &state.events), (&second.changes, &second.events));
    assert_eq!(state.programs, second.programs);
    assert!(state.log.is_empty());
}

#[test]
fn watch_returns_state_before_next_frame() {
    let tap = Tap::new(FrameBuilder::new(&parse(LAB), INTERVAL));
    tap.with(|builder| builder.event(at(10), "before"));
    tap.with(|builder| builder.log(at(10), Level::Info, "lab", "before"));
    assert!(!tap.is_watched());
    let state = tap.watch(at(130));
    assert_eq!((state.t, state.events.len(), state.log.len()), (0.2, 1, 0));
    tap.with(|builder| {
        // The middle of its interval is before the first frame.
        builder.link(&link_sample(200, 1_000, 0, 0));
        builder.link(&link_sample(300, 2_000, 0, 0));
        let frame = builder.poll(at(400)).unwrap();
        assert_eq!((frame.t, frame.links[0].directions[0].sent_bps), (0.3, 160e3));
        assert!(frame.events.is_empty());
    });
    // A second watcher does not disturb the first one.
    let second = tap.watch(at(430));
    assert_eq!((second.t, second.span), (0.3, 0.0));
}

#[test]
fn merges_changes_of_dropped_frame() {
    let event = |text: &str| EventLine { at: 0.0, text: text.to_owned() };
    let program = |program, state| ProgramRow { program, state, exit_code: None };
    let change = |link, up| LinkChange { link, values: LinkValues { up, ..Default::default() } };
    let earlier = Frame {
        events: vec![event("one")],
        programs: vec![program(0, ProgramState::Running), program(1, ProgramState::Ready)],
        changes: vec![change(4, false), change(5, false)],
        links: vec![LinkRow::default()],
        dropped: 2,
        ..Frame::default()
    };
    let mut later = Frame {
        events: vec![event("two")],
        programs: vec![program(0, ProgramState::Exited)],
        changes: vec![change(5, true)],
        ..Frame::default()
    };
    later.add_earlier(earlier);
    assert_eq!(later.events, [event("one"), event("two")]);
    let programs = [program(1, ProgramState::Ready), program(0, ProgramState::Exited)];
    assert_eq!(later.programs, programs);
    assert_eq!(later.changes, [change(4, false), change(5, true)]);
    assert_eq!((later.dropped, later.links.len()), (2, 0));
    let mut long = Frame { events: vec![event("x"); 900], ..Frame::default() };
    long.add_earlier(Frame { events: vec![event("old"); 300], ..Frame::default() });
    assert_eq!((long.events.len(), &long.events[100].text[..]), (1000, "x"));
    assert!(long.log[0].text.starts_with("200 events and 0 log lines"), "{:?}", long.log);
}

#[test]
fn messages_have_the_documented_form_and_round_trip() {
    let directions = [
        DirectionRow {
            sent_bps: 9.5e6,
            queue_bytes: 48_000,
            dropped_packets: 3,
            queue_delay_s: 0.25,
        },
        DirectionRow::default(),
    ];
    let frame = Frame {
        t: 12.25,
        span: 0.5,
        links: vec![LinkRow { link: 2, directions }],
        flows: vec![FlowRow { flow: 1, goodput_bps: 9e6, rtt_s: None, lost_packets: 2 }],
        programs: vec![ProgramRow { program: 0, state: ProgramState::Exited, exit_code: Some(0) }],
        dropped: 4,
        ..Frame::default()
    };
    let text = serde_json::to_string(&Message::Frame(Box::new(frame.clone()))).unwrap();
    let expected = "{\"type\":\"frame\",\"t\":12.25,\"span\":0.5,\
                    \"links\":[[2,9500000.0,48000,3,0.25,0.0,0,0,0.0]],\
                    \"flows\":[[1,9000000.0,null,2]],\"programs\":[[0,\"exited\",0]],\
                    \"dropped\":4}";
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), Message::Frame(Box::new(frame)));
    let problem = Problem { message: "no".to_owned(), help: None };
    let answer = Answer { id: 7, errors: vec![problem], ..Answer::default() };
    let end = End { t: 3.0, outcome: "passed".to_owned(), ..End::default() };
    let mut hello = hello_of(&parse(LAB));
    // Not all decimals round-trip.
    for node in &mut hello.nodes {
        (node.x, node.y) = (0.25, 0.5);
    }
    for message in [Message::Answer(answer), Message::End(end), Message::Hello(Box::new(hello))] {
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message, "{text}");
    }
}

#[test]
fn hello_describes_links_and_paths() {
    let hello = hello_of(&parse(LAB));
    let names: Vec<&str> = hello.nodes.iter().map(|node| node.name.as_str()).collect();
    let node = |name| names.iter().position(|other| *other == name).unwrap() as u32;
    let out = &hello.links[1];
    assert_eq!((out.name.as_str(), out.ends), ("out", [node("r"), node("b")]));
    assert_eq!((out.values.rate_bps, out.values.delay_s), ([Some(1e7); 2], [0.02; 2]));
    // Ten packets of 1,500 B with 38 B of overhead.
    assert_eq!(out.values.queue_bytes, [Some(15_380); 2]);
    let unlimited = &hello.links[0].values;
    assert_eq!((unlimited.rate_bps, unlimited.queue_bytes), ([None; 2], [None; 2]));
    let flow = &hello.flows[0];
    assert_eq!((flow.from, flow.to, &flow.path[..]), (node("a"), node("b"), &[(0, 0), (1, 0)][..]));
    assert_eq!(hello.programs[0].node, node("b"));
    assert_eq!(hello.nodes[node("b") as usize].programs, ["web"]);
    assert!(hello.nodes.iter().all(|node| (0.0..=1.0).contains(&node.x)));
    let json = serde_json::to_value(&hello).unwrap();
    assert_eq!((&json["clock"], &json["source"]), (&"wall".into(), &"live".into()));
    assert_eq!(
        (&json["links"][1]["up"], &json["nodes"][2]["role"]),
        (&true.into(), &"router".into())
    );
}

#[test]
fn paths_of_equal_cost_are_unknown() {
    // From r over p or q to s, then to b.
    let routers = ["p", "q", "s"].map(|name| format!("[node.{name}]\nkind = \"router\"\n"));
    let links = [("r", "p"), ("r", "q"), ("p", "s"), ("q", "s")]
        .map(|(a, b)| format!("[[link]]\nends = [\"{a}\", \"{b}\"]\ndelay = \"1 ms\"\n"));
    let more = routers.concat() + &links.concat() + "[[flow]]";
    let text = LAB.replace("[[flow]]", &more).replace("[\"r\", \"b\"]", "[\"s\", \"b\"]");
    let hello = hello_of(&parse(&text));
    assert!(hello.flows[0].path.is_empty(), "{:?}", hello.flows);
}

#[test]
fn parses_requests_and_ignores_unknown_types() {
    let set = r#"{"type":"set","id":7,"fields":[["link.core.rate","5 Mbit/s"]],"more":1}"#;
    let fields = vec![("link.core.rate".to_owned(), "5 Mbit/s".to_owned())];
    assert_eq!(parse_request(set), Ok(Request::Set { id: 7, fields }));
    let mark = parse_request(r#"{"type":"mark","id":8,"text":"repaired"}"#);
    assert_eq!(mark, Ok(Request::Mark { id: 8, text: "repaired".to_owned() }));
    for (text, change) in [
        (r#""do":"pause""#, ClockChange::Pause),
        (r#""do":"resume""#, ClockChange::Resume),
        (r#""do":"step","ns":10000000"#, ClockChange::Step { ns: 10_000_000 }),
        (r#""do":"speed","permille":100"#, ClockChange::Speed { permille: Some(100) }),
        (r#""do":"speed","permille":null"#, ClockChange::Speed { permille: None }),
    ] {
        let clock = parse_request(&format!(r#"{{"type":"clock","id":9,{text}}}"#));
        assert_eq!(clock, Ok(Request::Clock { id: 9, change }));
    }
    assert_eq!(parse_request(r#"{"type":"zoom","id":9,"to":"a"}"#), Ok(Request::Unknown));
    for wrong in ["", "{}", "[1]", r#"{"type":"set","id":-1,"fields":[]}"#] {
        assert!(parse_request(wrong).is_err(), "{wrong}");
    }
    let long = format!(r#"{{"type":"mark","id":8,"text":"{}"}}"#, "x".repeat(MAX_REQUEST_BYTES));
    assert!(parse_request(&long).unwrap_err().contains("the limit is 65536"));
}

#[test]
fn parses_messages_of_terminals() {
    let [columns, rows] = [80, 24].map(|size| NonZeroU16::new(size).unwrap());
    let open = r#"{"type":"open","host":"alice","columns":80,"rows":24}"#;
    let host = "alice".to_owned();
    assert_eq!(parse_terminal_request(open), Ok(TerminalRequest::Open { host, columns, rows }));
    let ack = parse_terminal_request(r#"{"type":"ack","bytes":16384}"#);
    assert_eq!(ack, Ok(TerminalRequest::Ack { bytes: 16_384 }));
    let unknown = parse_terminal_request(r#"{"type":"bell","id":9}"#);
    assert_eq!(unknown, Ok(TerminalRequest::Unknown));
    for size in [r#""columns":0,"rows":24"#, r#""columns":80"#, r#""columns":80,"rows":65536"#] {
        let resize = format!(r#"{{"type":"resize",{size}}}"#);
        assert!(parse_terminal_request(&resize).is_err(), "{size}");
    }
}

/// A bundle from `s` to `r`, and a flow over two paths.
const SYSTEMS: &str = r#"
[lab]
name = "systems"
[node.a]
[node.b]
[node.s]
kind = "sendbox"
[node.r]
kind = "receivebox"
[[link]]
name = "left"
ends = ["a", "s"]
[[link]]
name = "middle"
ends = ["s", "r"]
rate = "10 Mbit/s"
[[link]]
name = "right"
ends = ["r", "b"]
[[link]]
name = "wireless"
ends = ["a", "b"]
rate = "5 Mbit/s"
[[bundle]]
name = "site"
from = "s"
to = "r"
[[flow]]
name = "bulk"
from = "a"
to = "b"
transport = "mctcp"
"#;

#[test]
fn frames_have_series_and_states_of_systems() {
    let plan = parse(SYSTEMS);
    let hello = hello_of(&plan);
    let kinds: Vec<_> = hello.systems.iter().map(|it| (&*it.name, &*it.kind)).collect();
    assert_eq!(kinds, [("site", "bundler"), ("bulk", "mctcp")]);
    let plots = hello.systems.iter().flat_map(|system| &system.plots);
    let names: Vec<(&str, &str)> =
        plots.flat_map(|plot| plot.series.iter().map(|name| (&*plot.title, &**name))).collect();
    let number = |title, name| names.iter().position(|it| *it == (title, name)).unwrap() as u32;
    let mut builder = FrameBuilder::on_virtual_clock(&plan);
    let interval = plan.interval;
    for (step, waiting) in [(1, 10), (2, 30)] {
        let at = Time::ZERO + interval * step;
        let mut bundle = BundleSample::empty(at, interval, 0, "delay");
        bundle.waiting = Span::from_millis(waiting);
        bundle.backlog = Bytes::new(1000 * step);
        builder.bundle(&bundle);
        let path = plan.links.iter().position(|link| link.name == "wireless").unwrap();
        builder.subflow(&SubflowSample {
            at,
            interval,
            flow: FlowId(0),
            subflow: 1,
            path: LinkId::at(path),
            sent_bytes: 0,
            received_bytes: 500,
            rtt: None,
            cwnd_bytes: None,
            retransmits: 0,
            state: if step == 1 { "connecting" } else { "active" },
        });
        let mut flow = FlowSample::empty(at, interval, FlowId(0));
        flow.reorder_bytes = Some(7000);
        builder.flow(&flow);
    }
    let frame = builder.poll(Time::ZERO + interval * 2).unwrap();
    let value = |title, name| {
        let number = number(title, name);
        frame.series.iter().find(|row| row.0 == number).map(|row| row.1)
    };
    let rate = 500.0 * 8.0 / interval.as_secs_f64();
    for (title, name, expected) in [
        ("Queueing delay", "at the sendbox", Some(0.02)),
        ("Queueing delay", "in the network", None),
        ("Queue at the sendbox", "maximum", Some(2000.0)),
        ("Received by path", "wireless", Some(rate)),
        ("Received by path", "left", None),
        ("Received out of order", "maximum", Some(7000.0)),
        ("Reinjected", "on another path", None),
    ] {
        let value = value(title, name);
        let is_equal = match (value, expected) {
            (Some(value), Some(expected)) => (value - expected).abs() < 1e-6 * expected,
            (value, expected) => value == expected,
        };
        assert!(is_equal, "{title}, {name}: {value:?}");
    }
    let states: Vec<_> = frame.states.iter().map(|state| (state.0, &*state.1)).collect();
    assert_eq!(states, [(0, "delay"), (1, "1 of 1 subflows active")]);
    assert_eq!(builder.state().states, frame.states);
    let text = serde_json::to_string(&Message::Frame(Box::new(frame.clone()))).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), Message::Frame(Box::new(frame)));
}
