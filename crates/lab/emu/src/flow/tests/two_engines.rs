//! Flows with ends driven by two engines, as on two agents.

use super::*;

/// Clock offset of the second agent in nanoseconds.
const SKEW_NANOS: u64 = 3_000_000;

/// The spec with only these ends.
fn with_ends(spec: &FlowSpec<'static>, ends: FlowEnds) -> FlowSpec<'static> {
    let mut spec = spec.clone();
    match ends {
        FlowEnds::Opening => spec.to_netns = None,
        FlowEnds::Accepting => spec.from_netns = None,
        FlowEnds::Both => {}
    }
    spec
}

/// Specs of flows between two namespaces that exist until the process ends.
fn specs(pair: &'static Pair, traffic: Vec<Traffic>) -> Vec<FlowSpec<'static>> {
    let families = [Family::V4, Family::V6].into_iter().cycle();
    let flows = traffic.into_iter().zip(families).zip(0..);
    flows.map(|((traffic, family), id)| pair.spec(id, family, traffic)).collect()
}

fn pair(test: &str) -> Option<&'static Pair> {
    Pair::new(test).map(|pair| &*Box::leak(Box::new(pair)))
}

/// Two engines with one end of each flow, and their samples.
struct TwoEngines {
    opening: FlowEngine,
    accepting: FlowEngine,
    samples: [Samples; 2],
}

impl TwoEngines {
    /// The receivers' clock is [`SKEW_NANOS`] ahead.
    fn start(specs: &[FlowSpec<'static>]) -> Self {
        let of = |which| specs.iter().map(|spec| with_ends(spec, which)).collect();
        let origin = sys::clock::monotonic() + 50_000_000;
        let (accepting, received) =
            spawn_at(of(FlowEnds::Accepting), LabClock::new(origin - SKEW_NANOS));
        let (opening, sent) = spawn_at(of(FlowEnds::Opening), LabClock::new(origin));
        let (opening, accepting) = (opening.unwrap(), accepting.unwrap());
        Self { opening, accepting, samples: [sent, received] }
    }

    fn each(&self, act: impl Fn(&FlowEngine)) {
        [&self.opening, &self.accepting].into_iter().for_each(act);
    }

    fn received(&self, flow: u32) -> u64 {
        let samples = self.samples[1].lock().unwrap();
        samples.iter().filter(|s| s.flow == FlowId(flow)).map(|s| s.received_bytes).sum()
    }

    /// Each flow's result, and the joined samples.
    fn finish(self) -> (Vec<FlowResult>, Vec<FlowSample>) {
        let opening = self.opening.finish().results.into_iter();
        let results =
            opening.zip(self.accepting.finish().results).map(|(a, b)| a.join(b)).collect();
        let [sent, received] =
            self.samples.map(|samples| std::mem::take(&mut *samples.lock().unwrap()));
        (results, sent.into_iter().chain(received).collect())
    }

    fn run(specs: &[FlowSpec<'static>]) -> (Vec<FlowResult>, Vec<FlowSample>) {
        let engines = Self::start(specs);
        wait_until("the flows' end", || engines.opening.pending() == 0);
        assert_eq!(engines.accepting.pending(), 0);
        engines.finish()
    }
}

/// Flows of all kinds; a request over UDP counts as lost after `timeout`.
fn every_kind(timeout: Span) -> Vec<Traffic> {
    let small = Sizes::Exponential(Bytes::new(30_000));
    let pareto = Sizes::Pareto { mean: Bytes::new(3000), shape_milli: 1500, limit: None };
    let requests = |request| Traffic::Requests {
        spec: Arc::new(Requests {
            request,
            response: small.clone(),
            arrivals: Arrivals::Poisson(Span::from_micros(500)),
            count: Some(200),
            streams: 4,
        }),
        tcp: Tcp::default(),
    };
    let closed = Arrivals::Closed(Think::Fixed(Span::ZERO));
    vec![
        bulk(Some(20_000_001), 1, None),
        bulk(Some(3_000_003), 8, None),
        bulk(Some(1_000_001), 3, Some(1000)),
        bulk(Some(0), 2, None),
        paced(8, 1000, Some(100_017)),
        rpc(Some(50), Span::ZERO),
        Traffic::Rpc {
            spec: Arc::new(Rpc {
                request: pareto.clone(),
                response: small.clone(),
                count: Some(30),
                interval: Span::from_millis(2),
                think: Think::Fixed(Span::ZERO),
            }),
            tcp: Tcp::default(),
        },
        transfers(small.clone(), Arrivals::Poisson(Span::from_micros(500)), Some(300)),
        transfers(Sizes::Fixed(Bytes::new(100_000)), closed, Some(50)),
        requests(Sizes::Fixed(Bytes::new(40))),
        requests(Sizes::Fixed(Bytes::new(1))),
        requests(pareto),
        Traffic::Queries(Arc::new(Queries {
            request: Bytes::new(40),
            response: Bytes::new(100),
            count: Some(50),
            interval: Span::from_millis(1),
            think: Think::Fixed(Span::ZERO),
            timeout,
        })),
    ]
}

#[test]
fn two_engines_give_results_of_one_engine() {
    let Some(pair) = pair("two_engines_give_results_of_one_engine") else { return };
    let specs = specs(pair, every_kind(Span::from_secs(30)));
    let (whole, _) = run(specs.clone());
    let (joined, samples) = TwoEngines::run(&specs);
    for (joined, whole) in joined.iter().zip(&whole) {
        assert_eq!(
            (&joined.outcome, joined.ends),
            (&Outcome::Completed, FlowEnds::Both),
            "{joined:?}"
        );
        assert_eq!(whole.outcome, Outcome::Completed);
        let amounts = |result: &FlowResult| {
            let transfers = result.transfers.as_ref();
            let transfers = transfers.map(|t| (t.started, t.completed, t.completion.count()));
            let values = (result.delay.count(), result.latency.count());
            let present = (result.retransmits.is_some(), result.gap.is_some());
            let bytes = (result.sent_bytes, result.received_bytes);
            // The delay of a sender behind its schedule depends on the host.
            let datagrams = result.datagrams.map(|all| run::Datagrams { skipped: 0, ..all });
            (bytes, result.responses, datagrams, transfers, values, present)
        };
        assert_eq!(amounts(joined), amounts(whole), "{joined:?}");
        assert_eq!(joined.completion, Some(joined.active));
        let all = samples.iter().filter(|sample| sample.flow == joined.id);
        let sum = all.fold((0, 0), |sum, s| (sum.0 + s.sent_bytes, sum.1 + s.received_bytes));
        assert_eq!(sum, (joined.sent_bytes, joined.received_bytes));
    }
    assert!(joined[4].active >= Span::from_millis(100), "{:?}", joined[4]);
    assert!(joined[4].delay.percentile(0.5) < MAX_DELAY_NANOS, "{:?}", joined[4]);
    assert!(joined[0].rtt.count() > 0);
}

#[test]
fn split_flows_stop_and_start_again() {
    let Some(pair) = pair("split_flows_stop_and_start_again") else { return };
    let endless = vec![bulk(None, 2, None), paced(8, 1000, None), bulk(Some(50_000), 1, None)];
    let engines = TwoEngines::start(&specs(pair, endless));
    wait_until("data", || engines.received(0) > 0 && engines.received(1) > 0);
    wait_until("the end of the third", || engines.opening.pending() == 0);
    // The receivers are stopped later, and receive nothing after that.
    engines.opening.stop(FlowId(0));
    engines.opening.stop(FlowId(1));
    let received = || engines.received(0) + engines.received(1);
    wait_until_no_data(received);
    engines.accepting.stop(FlowId(0));
    engines.accepting.stop(FlowId(1));
    wait_until_no_data(received);
    let before = [engines.received(0), engines.received(1)];
    // The senders start early; the receivers detect the start only by the data.
    (0..3).for_each(|flow| engines.opening.start(FlowId(flow)));
    let more = || engines.received(0) > before[0] && engines.received(1) > before[1];
    wait_until("more data", || more() && engines.opening.pending() == 0);
    engines.each(|engine| (0..3).for_each(|flow| engine.start(FlowId(flow))));
    wait_until("the third run of the third", || {
        engines.opening.pending() == 0 && engines.received(2) == 150_000
    });
    let (results, _) = engines.finish();
    assert_eq!(results[0].outcome, Outcome::Stopped, "{:?}", results[0]);
    assert_eq!(results[1].outcome, Outcome::Stopped, "{:?}", results[1]);
    assert_eq!(results[1].datagrams.unwrap().damaged, 0);
    assert_eq!(results[2].outcome, Outcome::Completed, "{:?}", results[2]);
    assert_eq!((results[2].sent_bytes, results[2].received_bytes), (150_000, 150_000));
}

#[test]
fn duration_ends_both_ends_of_flow() {
    let Some(pair) = pair("duration_ends_both_ends_of_flow") else { return };
    let endless =
        transfers(Sizes::Fixed(Bytes::new(30_000)), Arrivals::Every(Span::from_millis(1)), None);
    let kinds = vec![bulk(None, 2, None), paced(8, 1000, None), endless, rpc(None, Span::ZERO)];
    let mut specs = specs(pair, kinds);
    // Longer than a thread waits for a CPU.
    for spec in &mut specs {
        spec.flow.duration = Some(Span::from_secs(3));
    }
    let (results, _) = TwoEngines::run(&specs);
    for result in &results {
        assert_eq!(result.outcome, Outcome::Expired, "{result:?}");
        assert!(result.received_bytes > 0 && result.started.is_some(), "{result:?}");
    }
    let datagrams = results[1].datagrams.unwrap();
    assert_eq!((datagrams.lost, datagrams.sent), (0, datagrams.received), "{datagrams:?}");
}

#[test]
fn sender_waits_for_agent_of_receiver() {
    let Some(pair) = pair("sender_waits_for_agent_of_receiver") else { return };
    let specs = specs(pair, every_kind(Span::from_secs(1)));
    let of = |which| specs.iter().map(|spec| with_ends(spec, which)).collect();
    let clock = LabClock::new(sys::clock::monotonic());
    let (opening, _) = spawn_at(of(FlowEnds::Opening), clock.clone());
    let opening = opening.unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let (accepting, _) = spawn_at(of(FlowEnds::Accepting), clock);
    let accepting = accepting.unwrap();
    wait_until("the flows' end", || opening.pending() == 0);
    let joined = opening
        .finish()
        .results
        .into_iter()
        .zip(accepting.finish().results)
        .map(|(a, b)| a.join(b));
    for (result, spec) in joined.zip(&specs) {
        assert_eq!(result.outcome, Outcome::Completed, "{result:?}");
        let waits = match spec.flow.traffic {
            // Datagram flows do not wait for the receiver.
            Traffic::Paced { .. } => false,
            _ => true,
        };
        // The sender itself may begin late.
        let (least, took) = (Span::from_secs(1), result.completion);
        assert!(!waits || took.is_some_and(|took| took > least), "{result:?}");
    }
}

#[test]
fn counts_lost_datagrams_at_end_of_flow() {
    let Some(pair) = pair("counts_lost_datagrams_at_end_of_flow") else { return };
    let engines = TwoEngines::start(&specs(pair, vec![paced(8, 1000, Some(3_000_000))]));
    wait_until("datagrams", || engines.received(0) > 20_000);
    pair.set_up(1, false).unwrap();
    wait_until("the sender's timeout", || engines.opening.pending() == 0);
    let (results, _) = engines.finish();
    let datagrams = results[0].datagrams.unwrap();
    assert_eq!(results[0].outcome, Outcome::Completed, "{:?}", results[0]);
    assert!(datagrams.lost > 0 && datagrams.sent == 3000, "{datagrams:?}");
    assert_eq!(datagrams.received + datagrams.lost, datagrams.sent, "{datagrams:?}");
}

#[test]
fn flows_fail_when_agent_of_other_end_is_lost() {
    let Some(pair) = pair("flows_fail_when_agent_of_other_end_is_lost") else { return };
    let endless = || vec![bulk(None, 1, None), rpc(None, Span::ZERO), paced(8, 1000, None)];
    let TwoEngines { opening, accepting, samples } = TwoEngines::start(&specs(pair, endless()));
    let received = || samples[1].lock().unwrap().iter().map(|s| s.received_bytes).sum::<u64>();
    wait_until("data", || received() > 0);
    // The other agent's connections are reset. A datagram flow gets no error, so
    // it needs the report.
    drop(accepting);
    opening.on_agent_lost(FlowId(2));
    std::thread::sleep(Duration::from_secs(5));
    let results = opening.finish().results;
    for (result, why) in results.iter().zip(["", "", "the agent of its other end was lost"]) {
        let Outcome::Failed(error) = &result.outcome else { panic!("{result:?}") };
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn reports_occupied_receiver_port() {
    let Some(pair) = pair("reports_occupied_receiver_port") else { return };
    let specs = specs(pair, vec![bulk(Some(1000), 1, None)]);
    let taken = std::net::SocketAddr::new(V4[1].into(), specs[0].port + 1);
    let listener = namespace::in_net(pair.netns[1].as_fd(), || std::net::TcpListener::bind(taken));
    let listener = listener.unwrap().unwrap();
    let engines = TwoEngines::start(&specs);
    // Another process accepts the connection and closes it.
    drop(listener.accept().unwrap());
    drop(listener);
    wait_until("the failure", || engines.opening.pending() == 0);
    let (results, _) = engines.finish();
    let Outcome::Failed(error) = &results[0].outcome else { panic!("{results:?}") };
    assert!(error.contains("other end: bind"), "{error}");
}
