//! A line as numbers.

use super::{Fix, Global};

pub(in crate::rgap) const WORDS: usize = 15;

impl Global {
    /// Its parts, for [`crate::rgap::Synced`] and for other processes.
    pub(in crate::rgap) fn words(&self) -> [u64; WORDS] {
        let Fix {
            local_ns,
            offset_ns,
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
        } = self.anchor;
        [
            local_ns,
            offset_ns.cast_unsigned(),
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
            self.centre.0,
            self.centre.1.cast_unsigned(),
            self.slope_ppt.cast_unsigned(),
            self.noise_ns,
            self.noise_ppt,
            self.bias_ns,
            self.wander_ppt,
            self.worst_ppt,
            u64::from(self.rated),
        ]
    }

    /// The inverse of [`Global::words`].
    pub(in crate::rgap) fn of_words(words: &[u64; WORDS]) -> Self {
        let [
            local_ns,
            offset,
            half_ns,
            sure_ns,
            noise_ns,
            rtt_ns,
            counts @ ..,
        ] = *words;
        let [
            at,
            there,
            slope,
            noise,
            noise_ppt,
            bias_ns,
            wander_ppt,
            worst_ppt,
            rated,
        ] = counts;
        Self {
            anchor: Fix {
                local_ns,
                offset_ns: offset.cast_signed(),
                half_ns,
                sure_ns,
                noise_ns,
                rtt_ns,
            },
            centre: (at, there.cast_signed()),
            slope_ppt: slope.cast_signed(),
            noise_ns: noise,
            noise_ppt,
            bias_ns,
            wander_ppt,
            worst_ppt,
            rated: rated != 0,
        }
    }
}
