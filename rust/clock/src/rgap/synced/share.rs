//! What one process of a kernel learned, for the others: one synchronisation does for all.

use super::state::{CatchUp, State, flags, unflag};
use super::{Refusal, Synced};
use crate::promise::UNPROMISED_NS;
use crate::rgap::Global;
use crate::rgap::global::WORDS;
use crate::rgap::slew::Slew;
use crate::{Apart, LINE_LENGTH, Line, Reasons, sys};

/// Bytes of [`Synced::encode`].
pub const SHARE_LENGTH: usize = LINE_LENGTH + 8 * (WORDS + 1);

impl Synced {
    /// For the other processes of this kernel: one synchronisation does for all.
    pub fn encode(&self) -> [u8; SHARE_LENGTH] {
        let state = self.state();
        let mut bytes = [0; SHARE_LENGTH];
        bytes[..LINE_LENGTH].copy_from_slice(&self.clock.line().encode());
        let flag_word = flags(self.now().reasons, state.stratum, state.synchronised);
        let words = state.global.words().into_iter().chain([flag_word]);
        for (place, word) in bytes[LINE_LENGTH..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Goes over to what another process of this kernel has learned, see [`Clock::adopt`]. The global
    /// time is then the same in both. Returns how far the own clock moved, in nanoseconds.
    ///
    /// # Errors
    /// If these are not the bytes of a process of this kernel that is synchronised.
    pub fn adopt(&self, bytes: &[u8]) -> Result<i64, Refusal> {
        let bytes: &[u8; SHARE_LENGTH] = bytes.try_into().map_err(|_| Apart)?;
        let mut words = [0; WORDS + 1];
        for (word, place) in words.iter_mut().zip(bytes[LINE_LENGTH..].chunks_exact(8)) {
            *word = u64::from_be_bytes(place.try_into().map_err(|_| Apart)?);
        }
        let [line @ .., flag_word] = words;
        let (reasons, stratum, synchronised) = unflag(flag_word);
        if !synchronised {
            return Err(Refusal::Apart);
        }
        let mut fixes = self.fixes();
        let shared = Line::parse(&bytes[..LINE_LENGTH])?;
        let disruptions = self.disruptions();
        let before = self.state();
        // What is known is not of the line that the clock goes over to.
        let reasons_before = before.reasons | Reasons::ADRIFT;
        self.store(&State {
            reasons: reasons_before,
            ..before
        });
        let moved = self
            .clock
            .adopt(&shared)
            .inspect_err(|_| self.store(&before))?;
        fixes.clear();
        let mut global = Global::of_words(&line);
        if !self.knows_all_cores() {
            global = global.wider(UNPROMISED_NS);
        }
        let state = State {
            global,
            slew: Slew::NONE,
            catch_up: CatchUp::after(moved, self.clock.ordered()),
            reasons,
            stratum,
            synchronised,
            disruptions,
        };
        self.store(&state);
        Ok(moved)
    }

    /// Whether this process has compared the cores that another process may be on with its own: one
    /// that is bound to some of them has not.
    fn knows_all_cores(&self) -> bool {
        let compared = self.clock.promise().cores;
        compared.is_none_or(|cores| cores >= sys::online_cpus())
    }
}
