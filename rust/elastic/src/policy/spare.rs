//! `spare`: some nodes stand ready before they are needed.

use super::base::{Named, Policy, View, Wish};
use crate::settings::{BadSetting, Settings};

/// Keeps so many idle nodes beyond those in use, and releases the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    pub nodes: u32,
}

impl Policy for Spare {
    #[inline]
    fn wish(&mut self, view: &View) -> Wish {
        let missing = self.nodes.saturating_sub(view.spent + view.fresh);
        Wish::idle(view, view.owed.saturating_add(missing), self.nodes)
    }
}

impl Named for Spare {
    const NAME: &'static str = "spare";

    fn read(settings: &mut Settings) -> Result<Self, BadSetting> {
        let nodes = settings.whole("nodes", 0..=1_000_000, 1)?;
        Ok(Self { nodes })
    }
}
