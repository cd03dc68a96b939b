//! Reads the samples of systems: rate control, shares, bundles and subflows.

use base::{Bandwidth, Bytes, FlowId, LinkId, NodeId, Ratio, Span, Time};
use lab::plan::{BundleState, Plan};

use super::{for_each_row, names, number, position};
use crate::live::FrameBuilder;
use crate::sample::bundle::BundleSample;
use crate::sample::control::{ControlSample, Errors};
use crate::sample::subflow;
use crate::table::Value;
use crate::{Error, FlowKind, RunFolder, ShareSample, SubflowSample};

pub(super) fn read(
    folder: &RunFolder,
    plan: &Plan,
    builder: &mut FrameBuilder,
) -> Result<(), Error> {
    read_control(folder, builder)?;
    read_shares(folder, plan, builder)?;
    read_bundles(folder, plan, builder)?;
    read_subflows(folder, plan, builder)
}

fn real(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Real(value) => Some(*value),
        _ => None,
    }
}

fn time(value: &Value<'_>) -> Time {
    Time::from_nanos(number(value).unwrap_or_default())
}

fn span(value: &Value<'_>) -> Span {
    Span::from_nanos(number(value).unwrap_or_default())
}

fn read_control(folder: &RunFolder, builder: &mut FrameBuilder) -> Result<(), Error> {
    let wanted = [
        "time_ns",
        "interval_ns",
        "sessions",
        "assigned",
        "source_error_mean",
        "source_error_p10",
        "source_error_p90",
        "bottlenecks_over",
        "queue_max_bytes",
        "control_bytes",
        "data_bytes",
    ];
    for_each_row(&folder.table("control"), &wanted, |row| {
        let value = |at: usize| number(&row[at]).unwrap_or_default();
        let source = real(&row[4]).map(|mean| Errors {
            mean,
            mean_abs: 0.0,
            p10: real(&row[5]).unwrap_or(mean),
            p90: real(&row[6]).unwrap_or(mean),
        });
        builder.control(&ControlSample {
            at: time(&row[0]),
            interval: span(&row[1]),
            sessions: value(2),
            assigned: value(3),
            source,
            over: real(&row[7]),
            queue_max_bytes: Bytes::new(value(8)),
            control_bytes: Bytes::new(value(9)),
            data_bytes: Bytes::new(value(10)),
            ..ControlSample::default()
        });
    })
}

fn read_shares(folder: &RunFolder, plan: &Plan, builder: &mut FrameBuilder) -> Result<(), Error> {
    let nodes = names(plan.nodes.iter().map(|node| &node.name));
    let wanted = ["time_ns", "interval_ns", "from", "to", "share_bps", "sent_bytes"];
    // The samples of one time, which are consecutive.
    let mut samples: Vec<ShareSample> = Vec::new();
    for_each_row(&folder.table("shares"), &wanted, |row| {
        let node = |at: usize| position(&nodes, &row[at]).map(NodeId::at);
        let (Some(from), Some(to)) = (node(2), node(3)) else { return };
        let at = time(&row[0]);
        if samples.first().is_some_and(|first| first.at != at) {
            builder.shares(&samples);
            samples.clear();
        }
        samples.push(ShareSample {
            at,
            interval: span(&row[1]),
            from,
            to,
            flow: 0,
            kind: FlowKind::Stream,
            share: number(&row[4]),
            demand: None,
            sent_bytes: number(&row[5]).unwrap_or_default(),
        });
    })?;
    builder.shares(&samples);
    Ok(())
}

fn read_bundles(folder: &RunFolder, plan: &Plan, builder: &mut FrameBuilder) -> Result<(), Error> {
    let bundles = names(plan.bundles.iter().map(|bundle| &bundle.name));
    let wanted = [
        "time_ns",
        "interval_ns",
        "bundle",
        "state",
        "rate_bps",
        "send_rate_bps",
        "receive_rate_bps",
        "capacity_bps",
        "queueing_ns",
        "waiting_ns",
        "backlog_bytes",
        "loss",
    ];
    for_each_row(&folder.table("bundles"), &wanted, |row| {
        let Some(bundle) = position(&bundles, &row[2]) else { return };
        let state = text_of(&row[3], BundleState::ALL.map(BundleState::as_str)).unwrap_or("");
        let mut sample = BundleSample::empty(time(&row[0]), span(&row[1]), bundle as u32, state);
        let rate = |at: usize| number(&row[at]).map(Bandwidth::from_bits_per_sec);
        sample.rate = rate(4);
        sample.send_rate = rate(5);
        sample.receive_rate = rate(6);
        sample.capacity = rate(7);
        sample.queueing = number(&row[8]).map(Span::from_nanos);
        sample.waiting = span(&row[9]);
        sample.backlog = Bytes::new(number(&row[10]).unwrap_or_default());
        sample.loss = real(&row[11])
            .map(|loss| Ratio::from_parts_per_billion((loss.clamp(0.0, 1.0) * 1e9) as u64));
        builder.bundle(&sample);
    })
}

fn read_subflows(folder: &RunFolder, plan: &Plan, builder: &mut FrameBuilder) -> Result<(), Error> {
    let flows = names(plan.flows.iter().map(|flow| &flow.name));
    let links = names(plan.links.iter().map(|link| &link.name));
    let wanted =
        ["time_ns", "interval_ns", "flow", "subflow", "path", "received_bytes", "rtt_ns", "state"];
    for_each_row(&folder.table("subflows"), &wanted, |row| {
        let Some(flow) = position(&flows, &row[2]) else { return };
        let path = position(&links, &row[4]).map_or(LinkId(u32::MAX), LinkId::at);
        builder.subflow(&SubflowSample {
            at: time(&row[0]),
            interval: span(&row[1]),
            flow: FlowId::at(flow),
            subflow: number(&row[3]).unwrap_or_default() as u32,
            path,
            sent_bytes: 0,
            received_bytes: number(&row[5]).unwrap_or_default(),
            rtt: number(&row[6]).map(Span::from_nanos),
            cwnd_bytes: None,
            retransmits: 0,
            state: text_of(&row[7], subflow::STATES).unwrap_or("closed"),
        });
    })
}

/// The known text that is equal to the value.
fn text_of<const N: usize>(value: &Value<'_>, known: [&'static str; N]) -> Option<&'static str> {
    match value {
        Value::Text(text) => known.into_iter().find(|known| *known == text.as_ref()),
        _ => None,
    }
}
