//! `predictor`: allocates for the viewers that it expects.

use super::base::{Named, Policy, View, Wish};
use crate::settings::{BadSetting, Settings};

/// Without news for so many samples, the forecast has long been what it will be.
const MOST_SAMPLES: u64 = 1000;

/// Holt's linear trend (double exponential smoothing) of the number of viewers, sampled each `every`,
/// told `horizon` ahead; wants the nodes for that many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predictor {
    pub every_ns: u64,
    pub horizon_ns: u64,
    /// How fast the level follows, 0 to 1.
    pub alpha: f64,
    /// How fast the trend follows, 0 to 1.
    pub beta: f64,
    level: f64,
    trend: f64,
    next: Option<u64>,
}

impl Predictor {
    /// Takes the samples that are due. The first is the level.
    #[inline]
    #[allow(clippy::cast_precision_loss)] // Nobody has 2^53 viewers.
    fn sample(&mut self, view: &View) {
        let demand = view.demand() as f64;
        let Some(next) = self.next else {
            self.level = demand;
            self.next = Some(view.at.saturating_add(self.every_ns));
            return;
        };
        if view.at < next {
            return;
        }
        let samples = 1 + (view.at - next) / self.every_ns;
        for _ in 0..samples.min(MOST_SAMPLES) {
            let level = self.alpha * demand + (1.0 - self.alpha) * (self.level + self.trend);
            self.trend = self.beta * (level - self.level) + (1.0 - self.beta) * self.trend;
            self.level = level;
        }
        self.next = Some(next.saturating_add(samples.saturating_mul(self.every_ns)));
    }

    /// Nodes for the viewers that are expected.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    fn forecast(&self, room: u32) -> u32 {
        let steps = self.horizon_ns as f64 / self.every_ns as f64;
        let viewers = (self.level + self.trend * steps).max(0.0);
        // It saturates, and less than a tenth of a viewer is none.
        (((viewers - 0.1) / f64::from(room.max(1))).ceil()) as u32
    }
}

impl Policy for Predictor {
    #[inline]
    fn wish(&mut self, view: &View) -> Wish {
        self.sample(view);
        let expected = self.forecast(view.room);
        let coming = view.owed.max(expected.saturating_sub(view.ready));
        Wish::idle(view, coming, expected.saturating_sub(view.busy()))
    }

    fn wake_at(&self, view: &View) -> Option<u64> {
        let something = view.demand() > 0 || view.coming + view.ready > 0;
        self.next.filter(|_| something)
    }
}

impl Named for Predictor {
    const NAME: &'static str = "predictor";

    fn read(settings: &mut Settings) -> Result<Self, BadSetting> {
        Ok(Self {
            every_ns: settings.seconds("every_s", 0.001..=1e6, 10.0)?,
            horizon_ns: settings.seconds("horizon_s", 0.0..=1e6, 60.0)?,
            alpha: settings.number("alpha", 0.0..=1.0, 0.5)?,
            beta: settings.number("beta", 0.0..=1.0, 0.3)?,
            level: 0.0,
            trend: 0.0,
            next: None,
        })
    }
}
