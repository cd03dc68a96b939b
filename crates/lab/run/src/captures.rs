//! The capture files of a lab.

use lab::plan::{MirrorTarget, Plan};

use crate::CaptureId;

/// The capture files of a lab, those of interfaces first.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    /// The capture of each interface, by `IfaceId`; `None` where it is not captured.
    pub ifaces: Vec<Option<CaptureId>>,
    /// The capture of each mirror session that goes to a file, by `MirrorId`.
    pub mirrors: Vec<Option<CaptureId>>,
    /// Names of the captures, by [`CaptureId`]: `alice.eth0`, or that of a mirror.
    pub names: Vec<String>,
}

impl Captures {
    pub fn of(plan: &Plan) -> Self {
        let mut captures = Self { ifaces: vec![None; plan.ifaces.len()], ..Self::default() };
        for id in &plan.captures {
            let iface = &plan.ifaces[id.index()];
            captures.ifaces[id.index()] = Some(CaptureId(captures.names.len() as u32));
            captures.names.push(format!("{}.{}", plan.nodes[iface.node.index()].name, iface.name));
        }
        for mirror in &plan.mirrors {
            let id = (mirror.to == MirrorTarget::File).then(|| {
                captures.names.push(mirror.name.clone());
                CaptureId(captures.names.len() as u32 - 1)
            });
            captures.mirrors.push(id);
        }
        captures
    }
}
