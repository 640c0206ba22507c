//! Which arrivals can be simulated, and for about how long they go on.

use super::error::SpecError;
use super::time::{length, need, positive};
use crate::Arrivals;

impl Arrivals {
    /// # Errors
    /// Names the field.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        match self {
            Self::Poisson { rate_hz } | Self::Uniform { rate_hz } => positive("rate_hz", *rate_hz),
            Self::Trace { at_s } => {
                for (i, at) in at_s.iter().enumerate() {
                    let field = format!("at_s[{i}]");
                    length(&field, *at)?;
                    let before = at_s[i.saturating_sub(1)];
                    need(
                        before <= *at,
                        &field,
                        *at,
                        &format!("{before} or more, as the one before"),
                    )?;
                }
                Ok(())
            }
            Self::FlashCrowd {
                rate_hz,
                peak_hz,
                from_s,
                decay_s,
            } => {
                positive("rate_hz", *rate_hz)?;
                positive("peak_hz", *peak_hz)?;
                need(peak_hz >= rate_hz, "peak_hz", *peak_hz, "rate_hz or more")?;
                length("from_s", *from_s)?;
                positive("decay_s", *decay_s)
            }
            Self::Surge {
                rate_hz,
                peak_hz,
                from_s,
                for_s,
            } => {
                positive("rate_hz", *rate_hz)?;
                positive("peak_hz", *peak_hz)?;
                length("from_s", *from_s)?;
                length("for_s", *for_s)
            }
            Self::Daily {
                rate_hz,
                swing,
                peak_at_s,
            } => {
                positive("rate_hz", *rate_hz)?;
                need((0.0..=1.0).contains(swing), "swing", *swing, "0 to 1")?;
                length("peak_at_s", *peak_at_s)
            }
            Self::Profile { rates_hz, step_s } => {
                for (i, rate) in rates_hz.iter().enumerate() {
                    length(&format!("rates_hz[{i}]"), *rate)?;
                }
                if !rates_hz.iter().any(|rate| *rate > 0.0) {
                    return Err(SpecError::new("rates_hz", "needs a rate above 0"));
                }
                positive("step_s", *step_s)
            }
        }
    }

    /// About how many seconds so many sessions take to come.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn lasts_s(&self, sessions: u64) -> f64 {
        let sessions = sessions as f64;
        match self {
            Self::Trace { at_s } => at_s.last().copied().unwrap_or_default(),
            Self::Poisson { rate_hz }
            | Self::Uniform { rate_hz }
            | Self::FlashCrowd { rate_hz, .. }
            | Self::Surge { rate_hz, .. }
            | Self::Daily { rate_hz, .. } => sessions / rate_hz,
            Self::Profile { rates_hz, .. } => {
                sessions * rates_hz.len() as f64 / rates_hz.iter().sum::<f64>()
            }
        }
    }
}
