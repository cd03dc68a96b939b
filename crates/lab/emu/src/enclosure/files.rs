//! The private files of nodes.

use std::path::Path;

use lab::plan::Plan;
use sys::confine::private::View;

use super::{Enclosure, PrivateMounts};
use crate::users::Users;
use crate::{Error, Result};

/// Gives each node with private files a mount namespace, a copy of the lab's. `shared` are folders
/// that programs of such nodes share with the machine nevertheless.
///
/// # Errors
/// [`Error::PrivateFiles`] with the node and the folder.
pub fn install_private_files(
    _: &PrivateMounts,
    plan: &Plan,
    enclosure: &mut Enclosure,
    shared: &[&Path],
    users: &Users,
) -> Result<()> {
    for host in &mut enclosure.hosts {
        let node = &plan.nodes[host.node.index()];
        let Some(files) = &node.files else { continue };
        let ids = node.user.as_ref().and_then(|user| users.ids(&user.name));
        let view = View {
            folders: files.folders.as_deref(),
            shared,
            bytes: files.size.count(),
            owner: ids.map_or((0, 0), |ids| (ids.uid, ids.gid)),
        };
        let built = view.build();
        host.mounts =
            Some(built.map_err(|cause| Error::PrivateFiles { node: node.name.clone(), cause })?);
    }
    Ok(())
}
