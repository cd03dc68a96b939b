//! `[cluster]`, and the requirements of nodes on agents.

use base::Bytes;

use super::elements::NAMES;
use super::{Fields, Raw, Shape, Words};
use crate::plan::{OnLoss, Spread};

const GROUPS: Shape = Shape::List(&Shape::List(&Shape::Text));
pub(super) const CPUS: Shape = Shape::Number(0.0, 4096.0);
pub(super) const MEMORY: Shape = Shape::Data(Bytes::new(1 << 20), Bytes::new(1 << 50));

words! {
    OnLoss { ("stop" Self::Stop) ("continue" Self::Continue) }
    Spread { ("even" Self::Even) ("pack" Self::Pack) }
}

section! {
    /// `[cluster]`
    pub(crate) CLUSTER: Cluster = "`[cluster]`",
    "With `netarium run --cluster`: the placement of hosts, and the reaction to the loss of an \
     agent. Without effect on one machine.";
    on_agent_loss: OnLoss, Word(OnLoss::WORDS), Default("stop"),
        "When an agent or the coordinator is lost: `stop` ends the lab everywhere, `continue` \
         keeps the other hosts running.";
    apart: Raw, GROUPS, Default("[]"),
        "Groups of nodes, names or patterns; the nodes of a group are all on different machines: \
         `[[\"a\", \"b\"], [\"server*\"]]`.";
    together: Raw, GROUPS, Default("[]"),
        "Groups of nodes, names or patterns; the nodes of a group are on the same machine.";
    machines: Fields, Map(&NAMES), Default("{}"),
        "The nodes, names or patterns, that an agent must run: `{ rack1 = [\"a\", \
         \"l*\"] }`. Same as `machine` of each node.";
    spread: Spread, Word(Spread::WORDS), Default("even"),
        "Default placement: `even` over all machines in proportion to their cores, or `pack` on as \
         few machines as possible.";
    cpus: Option<f64>, CPUS, Unset("0"), "Cores for the programs of each host without `cpus`.";
    memory: Option<Bytes>, MEMORY, Unset("nothing"),
        "Memory for the programs of each host without `memory`.";
    files: Raw, List(&Text), Default("[]"),
        "Files that programs need in addition to those in their commands: patterns relative to \
         the lab file's folder, for example `apps/**`.";
}
