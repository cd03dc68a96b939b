//! What of a run goes to the recorder.

use lab::plan::Plan;
use record::{Recorder, RecorderOptions};

use super::lab::Job;
use crate::Result;

/// Starts the recorder of a lab that begins at this wall-clock time.
pub(super) fn start_recorder(
    job: &Job,
    captures: Vec<String>,
    started_unix_ns: u64,
) -> Result<Recorder> {
    let options = RecorderOptions {
        started_unix_ns,
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
