//! What of a run goes to the recorder.

use std::sync::mpsc;

use lab::plan::Plan;
use outcome::FlowLedger;
use record::{Recorder, RecorderHandle, RecorderOptions};

use super::lab::{Job, LEAD};
use crate::Result;
use crate::flow::{FlowSink, Observation};

/// Where observations of flows go: to the recorder, and samples to the ledger too.
pub(super) fn sink(handle: RecorderHandle, samples: mpsc::Sender<Observation>) -> FlowSink {
    Box::new(move |seen| match seen {
        Observation::Sample(sample) => {
            let _ = samples.send(Observation::Sample(sample.clone()));
            handle.flow(*sample);
        }
        Observation::Subflow(sample) => {
            let _ = samples.send(Observation::Subflow(sample));
            handle.subflow(sample);
        }
        Observation::Transfer(transfer) => handle.transfer(transfer),
    })
}

/// Keeps what an expectation may ask for.
pub(super) fn keep(ledger: &mut FlowLedger, seen: &Observation) {
    match seen {
        Observation::Sample(sample) => ledger.enter(sample),
        Observation::Subflow(sample) => ledger.enter_subflow(sample),
        Observation::Transfer(_) => {}
    }
}

pub(super) fn start_recorder(job: &Job, captures: Vec<String>) -> Result<Recorder> {
    let options = RecorderOptions {
        started_unix_ns: sys::clock::realtime() + LEAD.as_nanos(),
        links: job.plan.links.iter().map(|link| link.name.clone()).collect(),
        flows: job.plan.flows.iter().map(|flow| flow.name.clone()).collect(),
        bundles: job.plan.bundles.iter().map(|bundle| bundle.name.clone()).collect(),
        nodes: job.plan.nodes.iter().map(|node| node.name.clone()).collect(),
        captures,
        lossless: false,
    };
    Ok(Recorder::start(&job.folder, &options)?)
}

/// Which interface goes to which capture, which mirror too, and the captures' names.
pub(super) fn captures(
    plan: &Plan,
) -> (Vec<Option<record::CaptureId>>, Vec<Option<record::CaptureId>>, Vec<String>) {
    let mut names = Vec::new();
    let mut ifaces = vec![None; plan.ifaces.len()];
    for id in &plan.captures {
        let iface = &plan.ifaces[id.index()];
        ifaces[id.index()] = Some(record::CaptureId(names.len() as u32));
        names.push(format!("{}.{}", plan.nodes[iface.node.index()].name, iface.name));
    }
    let mirrors = plan.mirrors.iter().map(|mirror| {
        (mirror.to == lab::plan::MirrorTarget::File).then(|| {
            names.push(mirror.name.clone());
            record::CaptureId(names.len() as u32 - 1)
        })
    });
    let mirrors = mirrors.collect();
    (ifaces, mirrors, names)
}
