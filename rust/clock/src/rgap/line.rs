//! The straight line through several synchronisations.

use super::exchange::Fix;

/// The slope of a line through (local, offset) by weighted least squares, each point's weight being
/// 1/noise². What chance does to it follows from that (e.g. Bevington & Robinson, 3rd ed., eq. 6.23),
/// and is 99.9 % where the points' noise is. It is a mean of the rates of all moments in between, so
/// no further from any of them than they are from each other. The line itself is: a rate that wanders
/// makes a curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub slope_ppt: i64,
    pub noise_ppt: u64,
    /// What the slope was measured over: of two points, the time between them; of more, that of two
    /// with the same leverage. Points of little weight at a far end do not make it longer.
    pub baseline_ns: u64,
}

impl Line {
    /// In the order of time. None through fewer than two instants.
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits hold 104 days, to the nanosecond"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "they saturate, and what is taken for positive is"
    )]
    pub fn through(fixes: &[Fix]) -> Option<Self> {
        let first = fixes.first()?;
        let point = |fix: &Fix| {
            let noise = fix.noise_ns.max(1) as f64;
            let x = (fix.local_ns - first.local_ns) as f64;
            let y = fix.offset_ns.saturating_sub(first.offset_ns) as f64;
            (1.0 / (noise * noise), x, y)
        };
        let sum = |of: &dyn Fn((f64, f64, f64)) -> f64| -> f64 {
            fixes.iter().map(|fix| of(point(fix))).sum()
        };
        let weights = sum(&|(w, _, _)| w);
        let mean_x = sum(&|(w, x, _)| w * x) / weights;
        let mean_y = sum(&|(w, _, y)| w * y) / weights;
        let sxx = sum(&|(w, x, _)| w * (x - mean_x) * (x - mean_x));
        let sxy = sum(&|(w, x, y)| w * (x - mean_x) * (y - mean_y));
        // Not `is_normal`: a sum of such small numbers may be no number at all.
        if !(sxx > 0.0 && weights > 0.0) {
            return None;
        }
        let slope = sxy / sxx;
        let reach = sum(&|(w, x, _)| w * (x - mean_x).abs());
        // Points further from the line than chance would have them say that there is more of it
        // (Birge's ratio, with the largest instead of the mean).
        let misfit = fixes.iter().map(point).fold(1.0_f64, |most, (w, x, y)| {
            let off = y - mean_y - slope * (x - mean_x);
            most.max(off * off * w)
        });
        Some(Self {
            slope_ppt: (slope * 1e12) as i64,
            noise_ppt: root(misfit / sxx * 1e24),
            baseline_ns: (2.0 * sxx / reach) as u64,
        })
    }
}

/// The square root, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
fn root(square: f64) -> u64 {
    u64::try_from((square as u128).isqrt() + 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(local_ns: u64, offset_ns: i64, noise_ns: u64) -> Fix {
        Fix {
            local_ns,
            offset_ns,
            half_ns: noise_ns.saturating_mul(10),
            sure_ns: noise_ns.saturating_mul(2),
            noise_ns,
            rtt_ns: noise_ns.saturating_mul(20),
        }
    }

    #[test]
    fn as_by_hand() {
        let fixes = [fix(1_000, 7, 1), fix(2_000, 9, 1), fix(3_000, 11, 1)];
        let line = Line::through(&fixes).expect("line");
        // 1/sqrt(2·1000²) of 10^12.
        assert_eq!(
            (line.slope_ppt, line.noise_ppt),
            (2_000_000_000, 707_106_782)
        );
    }

    #[test]
    fn a_point_off_the_line_widens_it() {
        let on = [fix(0, 0, 10), fix(1_000_000, 0, 10), fix(2_000_000, 0, 10)];
        let off = [on[0], fix(1_000_000, 300, 10), on[2]];
        let [on, off] = [on, off].map(|it| Line::through(&it).expect("line"));
        assert_eq!((off.baseline_ns, on.baseline_ns), (2_000_000, 2_000_000));
        // 200 off the mean is 20 times the noise.
        assert_eq!(off.noise_ppt.div_ceil(on.noise_ppt), 20);
    }

    #[test]
    fn a_point_of_no_weight_is_no_baseline() {
        let close = [fix(9_000_000, 0, 10), fix(9_001_000, 0, 10)];
        let line = Line::through(&[fix(0, 0, 1_000_000), close[0], close[1]]).expect("line");
        assert!((1_000..20_000).contains(&line.baseline_ns), "{line:?}");
    }

    #[test]
    fn no_line_through_one_instant() {
        assert!(Line::through(&[]).is_none());
        assert!(Line::through(&[fix(5, 5, 5)]).is_none());
        assert!(Line::through(&[fix(5, 5, 5), fix(5, 6, 5)]).is_none());
        assert!(
            Line::through(&[fix(5, 5, u64::MAX), fix(6, 6, u64::MAX)])
                .is_none_or(|it| it.noise_ppt > 0)
        );
    }
}
