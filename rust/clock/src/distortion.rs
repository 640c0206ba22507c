//! A clock that runs falsely on purpose: a machine has one oscillator, so an experiment on two has to
//! make the second one up. Everything that comes of it is said to be [`crate::Reasons::DISTORTED`].

use crate::{Anchor, SHIFT, Scale};

/// `PPB` or `PPB,NS`: so much faster, and so much ahead.
const VARIABLE: &str = "ULLAGE_CLOCK_DISTORT";
/// Beyond this, it is no clock any more.
const MOST_PPB: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distortion {
    ppb: i64,
    ahead_ns: i64,
}

impl Distortion {
    /// As the environment variable `ULLAGE_CLOCK_DISTORT` has it. What cannot be understood is no
    /// distortion: nobody gets one who did not mean it.
    pub fn of_environment() -> Self {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Self::parse(&text).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let (ppb, ahead_ns) = text.split_once(',').unwrap_or((text, "0"));
        let ppb: i64 = ppb.trim().parse().ok()?;
        let ahead_ns = ahead_ns.trim().parse().ok()?;
        (ppb.abs() <= MOST_PPB).then_some(Self { ppb, ahead_ns })
    }

    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    pub fn rate_ppb(self) -> u32 {
        u32::try_from(self.ppb.unsigned_abs()).unwrap_or(u32::MAX)
    }

    /// The same line, so much steeper, and higher from its anchor on.
    pub fn of(self, line: &Anchor) -> Anchor {
        let mult = i128::from(line.scale.mult());
        let mult = mult + mult * i128::from(self.ppb) / 1_000_000_000;
        let scale = u64::try_from(mult).ok().and_then(Scale::from_mult);
        let ahead = u128::from(self.ahead_ns.unsigned_abs()) << SHIFT;
        let age = if self.ahead_ns < 0 {
            line.age.saturating_sub(ahead)
        } else {
            line.age.saturating_add(ahead)
        };
        Anchor {
            age,
            scale: scale.unwrap_or(line.scale),
            ..*line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant() {
        let parsed = |ppb, ahead_ns| Some(Distortion { ppb, ahead_ns });
        assert_eq!(Distortion::parse("11250"), parsed(11_250, 0));
        assert_eq!(Distortion::parse("-50, -1000"), parsed(-50, -1_000));
        for text in ["", "fast", "1,", "1,2,3", "1000001", "1.5"] {
            assert_eq!(Distortion::parse(text), None, "{text}");
        }
    }

    #[test]
    fn it_turns_the_line_about_its_anchor() {
        let line = Anchor {
            epoch: 2,
            ticks: 1_000,
            age: 5_000 << SHIFT,
            ns: 5_000,
            scale: Scale::NANOSECONDS,
        };
        assert_eq!(Distortion::default().of(&line), line);
        let fast = Distortion {
            ppb: 11_250,
            ahead_ns: -2_000,
        };
        let turned = fast.of(&line);
        assert_eq!(
            (turned.age >> SHIFT, turned.ticks, turned.ns),
            (3_000, 1_000, 5_000)
        );
        assert_eq!(turned.scale.ns(1_000_000_000_000), 1_000_011_250_000 - 1);
    }
}
