//! Who synchronises with whom.

use serde::{Deserialize, Serialize};

use crate::error::{Error, need};

/// A way to arrange the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Topology {
    /// All with the first server.
    Flat,
    /// The first server serves the heads of groups, each head its group.
    TwoLevel {
        /// How many groups, of sizes that differ by one at most, the larger ones first; none for
        /// about the square root of the number of nodes, which is best when all exchanges take the
        /// same.
        groups: Option<u64>,
    },
    /// Everybody that is synchronised serves others until there are none left: node i is served by
    /// i without its highest bit.
    Binomial,
    /// Everybody serves so many others, level by level.
    KAry {
        /// 1 or more.
        children: u64,
    },
}

impl Topology {
    /// One of each.
    #[must_use]
    pub fn usual() -> Vec<Self> {
        vec![
            Self::Flat,
            Self::TwoLevel { groups: None },
            Self::Binomial,
            Self::KAry { children: 4 },
        ]
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Self::TwoLevel { groups: Some(0) } => need(false, "groups", "1 or more"),
            Self::KAry { children: 0 } => need(false, "children", "1 or more"),
            _ => Ok(()),
        }
    }

    /// The one that serves node `number`, which is not the first.
    #[inline]
    pub(super) fn server(self, number: usize, nodes: u64) -> usize {
        match self {
            Self::Flat => 0,
            Self::TwoLevel { groups } => {
                let groups = heads(groups, nodes);
                if number <= groups {
                    0
                } else {
                    1 + (number - 1) % groups
                }
            }
            Self::Binomial => number ^ (1 << number.ilog2()),
            Self::KAry { children } => {
                (number - 1) / usize::try_from(children).unwrap_or(usize::MAX)
            }
        }
    }

    /// Synchronisations between the first server and the furthest node.
    #[must_use]
    pub fn depth(self, nodes: u64) -> u32 {
        let last = usize::try_from(nodes.saturating_sub(1)).unwrap_or(usize::MAX);
        match self {
            Self::Flat => u32::from(last > 0),
            Self::TwoLevel { groups } => {
                u32::from(last > 0) + u32::from(last > heads(groups, nodes))
            }
            // A node is as deep as its number has bits set, and j of them make 2^j − 1 at least.
            Self::Binomial => (last + 1).ilog2(),
            Self::KAry { .. } => {
                let mut above = last;
                let mut depth = 0;
                while above > 0 {
                    above = self.server(above, nodes);
                    depth += 1;
                }
                depth
            }
        }
    }
}

/// Heads of groups: no more than there are nodes beside the first.
#[inline]
fn heads(groups: Option<u64>, nodes: u64) -> usize {
    let groups = groups
        .unwrap_or_else(|| nodes.isqrt())
        .clamp(1, nodes.saturating_sub(1).max(1));
    usize::try_from(groups).unwrap_or(usize::MAX)
}
