use run::live::{
    DirectionRow, FlowRow, HelloFlow, HelloLink, HelloNode, HelloProgram, LinkChange, ProgramState,
};
use run::record::NodeRole;

use super::*;

/// A lab with links l0, l1, … from `a` to `b`, a flow and a program on `b`.
fn hello(links: usize) -> Hello {
    let node = |name: &str| HelloNode {
        name: name.to_owned(),
        role: NodeRole::Host,
        x: 0.0,
        y: 0.0,
        programs: Vec::new(),
    };
    let values = LinkValues {
        rate_bps: [Some(1e6), None],
        delay_s: [0.01; 2],
        loss: [0.0; 2],
        queue_bytes: [Some(5000), None],
        up: true,
    };
    let link = |number| HelloLink {
        name: format!("l{number}"),
        ends: [0, 1],
        ifaces: ["eth0", "eth0"].map(str::to_owned),
        values: values.clone(),
    };
    let (name, kind, path) = ("bulk".to_owned(), "TCP".to_owned(), Vec::new());
    Hello {
        seed: 7,
        run: "runs/pair-1".to_owned(),
        nodes: vec![node("a"), node("b")],
        links: (0..links).map(link).collect(),
        flows: vec![HelloFlow { name, from: 0, to: 1, kind, path }],
        programs: vec![HelloProgram { name: "web".to_owned(), node: 1 }],
        ..crate::tests::hello()
    }
}

/// 100 ms in which link 0 sends 10,000 B from `a` to `b`, and the flow receives 9,000 B.
fn busy(t: f64) -> Frame {
    let sent = DirectionRow {
        sent_bps: 800_000.0,
        queue_bytes: 3000,
        dropped_packets: 2,
        queue_delay_s: 0.024,
    };
    let directions = [sent, DirectionRow::default()];
    let flow = FlowRow { flow: 0, goodput_bps: 720_000.0, rtt_s: Some(0.03), lost_packets: 1 };
    let links = vec![LinkRow { link: 0, directions }];
    Frame { t, span: 0.1, links, flows: vec![flow], ..Frame::default() }
}

fn lines(lab: &LabMetrics, message: &Message) -> Vec<String> {
    lab.receive(&serde_json::to_string(message).unwrap());
    let text = ops::text("netarium_lab", lab.metrics());
    text.lines().map(str::to_owned).collect()
}

fn frame(frame: Frame) -> Message {
    Message::Frame(Box::new(frame))
}

#[track_caller]
fn contains(lines: &[String], expected: &[&str]) {
    for line in expected {
        assert!(lines.iter().any(|other| other == line), "no {line} in {lines:#?}");
    }
}

#[test]
fn gauges_show_last_frame_and_counters_sum_up() {
    let lab = LabMetrics::new("run");
    lines(&lab, &Message::Hello(Box::new(hello(2))));
    lines(&lab, &frame(busy(0.1)));
    let after_two = lines(&lab, &frame(busy(0.2)));
    let forward = r#"{link="l0",from="a",to="b"}"#;
    contains(
        &after_two,
        &[
            r#"netarium_lab_info{lab="pair",run="runs/pair-1",seed="7",clock="wall"} 1.0"#,
            "netarium_lab_time_s 0.2",
            "netarium_lab_frames_total 2",
            "netarium_lab_sent_bytes_total 20000",
            "netarium_lab_dropped_packets_total 4",
            "netarium_lab_received_bytes_total 18000",
            &format!("netarium_lab_link_rate_bit_s{forward} 800000.0"),
            &format!("netarium_lab_link_utilization_ratio{forward} 0.8"),
            &format!("netarium_lab_link_queue_bytes{forward} 3000.0"),
            &format!("netarium_lab_link_sent_bytes_total{forward} 20000"),
            &format!("netarium_lab_link_dropped_packets_total{forward} 4"),
            r#"netarium_lab_flow_rtt_s{flow="bulk"} 0.03"#,
            r#"netarium_lab_flow_lost_packets_total{flow="bulk"} 2"#,
            r#"netarium_lab_program_state{program="web",node="b",state="waiting"} 1.0"#,
        ],
    );
    let back = r#"netarium_lab_link_utilization_ratio{link="l0",from="b""#;
    assert!(!after_two.iter().any(|line| line.starts_with(back)), "its rate is unlimited");
    let ready = ProgramRow { program: 0, state: ProgramState::Failed, exit_code: Some(1) };
    let mut values = hello(1).links[0].values.clone();
    (values.up, values.loss) = (false, [0.5, 0.0]);
    let machine = MachineState { late_p99_s: 0.002, stalls: 3, ..MachineState::default() };
    let changes = Frame {
        t: 0.3,
        span: 0.1,
        programs: vec![ready],
        changes: vec![LinkChange { link: 0, values }],
        machine: Some(machine),
        ..Frame::default()
    };
    contains(
        &lines(&lab, &frame(changes)),
        &[
            &format!("netarium_lab_link_rate_bit_s{forward} 0.0"),
            &format!("netarium_lab_link_sent_bytes_total{forward} 20000"),
            &format!("netarium_lab_link_loss_ratio{forward} 0.5"),
            r#"netarium_lab_link_up{link="l0"} 0.0"#,
            r#"netarium_lab_program_state{program="web",node="b",state="failed"} 1.0"#,
            r#"netarium_lab_programs{state="failed"} 1.0"#,
            r#"netarium_lab_lateness_s{quantile="0.99"} 0.002"#,
            "netarium_lab_stalls_total 3",
            "netarium_lab_trusted 0.0",
        ],
    );
}

#[test]
fn number_of_series_is_bounded() {
    let lab = LabMetrics::new("run");
    let links = MAX_ELEMENTS + 3;
    lines(&lab, &Message::Hello(Box::new(hello(links))));
    let mut last = busy(0.1);
    last.links[0].link = links as u32 - 1;
    let lines = lines(&lab, &frame(last));
    contains(
        &lines,
        &[
            "netarium_lab_sent_bytes_total 10000",
            r#"netarium_lab_omitted_elements{kind="link"} 3.0"#,
            r#"netarium_lab_omitted_elements{kind="flow"} 0.0"#,
        ],
    );
    let up = lines.iter().filter(|line| line.starts_with("netarium_lab_link_up{"));
    assert_eq!(up.count(), MAX_ELEMENTS);
}

#[test]
fn is_healthy_until_connection_ends_without_result() {
    let lab = LabMetrics::new("sim");
    assert!(lab.is_healthy());
    lines(&lab, &Message::Hello(Box::new(hello(1))));
    lab.lock().is_closed = true;
    assert!(!lab.is_healthy());
    let end = End { t: 3.0, outcome: "passed".to_owned(), ..End::default() };
    let lines = lines(&lab, &Message::End(end));
    contains(
        &lines,
        &[r#"netarium_lab_outcome{outcome="passed"} 1.0"#, "netarium_lab_running 0.0"],
    );
    assert!(lab.is_healthy());
    let status = lab.status();
    assert_eq!((&status["role"], &status["outcome"]), (&"sim".into(), &"passed".into()));
}
