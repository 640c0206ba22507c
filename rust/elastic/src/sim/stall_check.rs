//! Whether somebody may wait for a node that never comes: such a run would not end.

use super::error::SpecError;
use super::fleet::factor;
use super::spec::{Allocation, Spec};
use super::time::Time;

impl Spec {
    /// A run in which somebody waits for a node that can never come would not end.
    pub(super) fn check_failures(&self) -> Result<(), SpecError> {
        let failures = &self.failures;
        if failures.never_ready > 0.0 && self.allocation.gives_up_s.is_none() {
            let problem = "is needed with failures.never_ready: else such a node is never given up";
            return Err(SpecError::new("allocation.gives_up_s", problem));
        }
        if self.patience.is_some() {
            return Ok(());
        }
        let hosts = self.hosts.as_ref();
        let hopeless = failures.never_ready >= 1.0
            || failures.error >= 1.0
            || hosts.is_some_and(|hosts| hosts.count == 0 || hosts.nodes_each == 0);
        let first_image = hosts.and_then(|hosts| hosts.first_image.as_ref());
        let image_s = first_image.map_or(0.0, Time::least_s);
        let problem = if hopeless {
            "is needed where no node ever becomes ready: else viewers wait for ever".to_owned()
        } else if let Some(concurrent) = self.allocation.in_vain(image_s) {
            format!(
                "is needed where every one of {concurrent} concurrent allocations takes longer than \
                 allocation.gives_up_s: else all fail and are tried again, and viewers wait for ever"
            )
        } else {
            return Ok(());
        };
        Err(SpecError::new("patience", problem))
    }
}

impl Allocation {
    /// With so many at the same time each is given up, however soon it would be ready. None: of any
    /// number some may be ready.
    ///
    /// The factor is linear between the numbers of its table, so it is largest at one of these, or at an
    /// end of a row.
    fn in_vain(&self, image_s: f64) -> Option<u32> {
        let gives_up_s = self.gives_up_s?;
        let rows = self.rows.iter().map(|row| row.concurrent);
        let ends = rows
            .clone()
            .map(|concurrent| concurrent.saturating_sub(1).max(1));
        let slower = self.slow_down.iter().map(|row| row.concurrent);
        let mut numbers: Vec<u32> = rows.chain(ends).chain(slower).collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .find(|concurrent| self.least_s(*concurrent) + image_s > gives_up_s)
    }

    /// The least that an allocation takes.
    fn least_s(&self, concurrent: u32) -> f64 {
        let row = self
            .rows
            .partition_point(|row| row.concurrent <= concurrent);
        let stages = &self.rows[row.saturating_sub(1)].stages;
        let least_s: f64 = stages.iter().map(|stage| stage.time.least_s()).sum();
        least_s * factor(&self.slow_down, concurrent)
    }
}
