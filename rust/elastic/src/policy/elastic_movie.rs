//! `elastic-movie`: the benchmark's own. Nothing is foreseen, so that the time to allocate is felt.

use super::base::{Named, Policy, View, Wish};
use crate::settings::{BadSetting, Settings};

/// Allocates when viewers find no room, and releases a node when its last viewer leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElasticMovie {
    /// Releases also a node that came too late for those who had waited for it. Otherwise it stays
    /// until its first viewers have come and gone.
    pub release_unused: bool,
}

impl Policy for ElasticMovie {
    #[inline]
    fn wish(&mut self, view: &View) -> Wish {
        Wish {
            coming: view.owed,
            spent: 0,
            fresh: if self.release_unused { 0 } else { u32::MAX },
        }
    }
}

impl Named for ElasticMovie {
    const NAME: &'static str = "elastic-movie";

    fn read(settings: &mut Settings) -> Result<Self, BadSetting> {
        let release_unused = settings.choice("unused", &[("keep", false), ("release", true)])?;
        Ok(Self { release_unused })
    }
}
