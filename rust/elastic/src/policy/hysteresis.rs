//! `hysteresis`: up at once, down late, so that a node does not come and go with each viewer.

use super::base::{Named, Policy, View, Wish};
use crate::settings::{BadSetting, Settings};

/// Allocates as `elastic-movie` does, and releases a node only when it has been idle for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    pub idle_ns: u64,
}

impl Hysteresis {
    #[inline]
    fn due(self, since: Option<u64>) -> Option<u64> {
        since.map(|since| since.saturating_add(self.idle_ns))
    }
}

impl Policy for Hysteresis {
    #[inline]
    fn wish(&mut self, view: &View) -> Wish {
        let over = |since| self.due(since).is_some_and(|due| due <= view.at);
        Wish {
            coming: view.owed,
            spent: view.spent - u32::from(over(view.spent_since)),
            fresh: view.fresh - u32::from(over(view.fresh_since)),
        }
    }

    fn wake_at(&self, view: &View) -> Option<u64> {
        let dues = [view.spent_since, view.fresh_since].map(|since| self.due(since));
        // What is due and still there is kept by the configuration.
        dues.into_iter()
            .flatten()
            .filter(|due| *due > view.at)
            .min()
    }
}

impl Named for Hysteresis {
    const NAME: &'static str = "hysteresis";

    fn read(settings: &mut Settings) -> Result<Self, BadSetting> {
        let idle_ns = settings.seconds("idle_s", 0.0..=1e6, 60.0)?;
        Ok(Self { idle_ns })
    }
}
