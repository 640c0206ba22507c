//! `threshold`: as the auto-scaling groups of clouds do it, by the use of what there is.

use super::base::{Named, Policy, View, Wish};
use crate::settings::{BadSetting, Settings};

/// Wants `step` nodes more when the share of the room that is in use (those who wait included) is above
/// `up`, and one less when it is below `down`; after each change it looks away for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    pub up: f64,
    pub down: f64,
    pub step: u32,
    pub cooldown_ns: u64,
    target: u32,
    quiet_until: u64,
}

enum Use {
    Above,
    Between,
    /// And there is a node that could go.
    Below,
}

impl Threshold {
    #[allow(clippy::cast_precision_loss)] // Nobody has 2^53 viewers.
    #[inline]
    fn use_of(&self, view: &View) -> Use {
        let room = f64::from(view.room) * f64::from(view.coming + view.ready);
        let demand = view.demand() as f64;
        let releasable = view.spent + view.fresh > 0 && view.coming + view.ready > view.min_nodes;
        if demand > self.up * room {
            Use::Above
        } else if demand < self.down * room && releasable {
            Use::Below
        } else {
            Use::Between
        }
    }
}

impl Policy for Threshold {
    #[inline]
    fn wish(&mut self, view: &View) -> Wish {
        let nodes = view.coming + view.ready;
        if view.at >= self.quiet_until {
            self.target = match self.use_of(view) {
                Use::Above => nodes.saturating_add(self.step),
                Use::Below => nodes.saturating_sub(1),
                Use::Between => nodes,
            };
            if self.target != nodes {
                self.quiet_until = view.at.saturating_add(self.cooldown_ns);
            }
        }
        let excess = nodes.saturating_sub(self.target);
        let idle = view.spent + view.fresh;
        let coming = self.target.saturating_sub(view.ready);
        Wish::idle(view, coming, idle.saturating_sub(excess))
    }

    fn wake_at(&self, view: &View) -> Option<u64> {
        let something = !matches!(self.use_of(view), Use::Between);
        (something && self.quiet_until > view.at).then_some(self.quiet_until)
    }
}

impl Named for Threshold {
    const NAME: &'static str = "threshold";

    fn read(settings: &mut Settings) -> Result<Self, BadSetting> {
        let up = settings.number("up", 0.01..=1.0, 0.8)?;
        let down = settings.number("down", 0.0..=1.0, 0.4)?;
        if down >= up {
            let allowed = format!("a number below up, which is {up}");
            return Err(BadSetting::new("down", &down, allowed));
        }
        Ok(Self {
            up,
            down,
            step: settings.whole("step", 1..=1_000_000, 1)?,
            cooldown_ns: settings.seconds("cooldown_s", 0.0..=1e6, 60.0)?,
            target: 0,
            quiet_until: 0,
        })
    }
}
