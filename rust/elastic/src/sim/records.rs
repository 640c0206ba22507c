//! Sessions one by one, for small runs.

use super::outcome::{End, Record};
use crate::units::seconds;

/// Those that have come so far, by number; nothing where they are not asked for.
#[derive(Debug, Default)]
pub(super) struct Records(pub(super) Option<Vec<Record>>);

impl Records {
    #[inline]
    pub(super) fn enabled(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(super) fn requested(&mut self, at: u64, watch: u64) {
        if let Some(all) = &mut self.0 {
            all.push(Record {
                asked_s: seconds(at),
                watch_s: seconds(watch),
                served_s: None,
                node: None,
                ended_s: None,
                end: End::Unserved,
            });
        }
    }

    #[inline]
    pub(super) fn served(&mut self, number: u64, at: u64, node: u32) {
        if let Some(record) = self.of(number) {
            record.served_s = Some(seconds(at));
            record.node = Some(node);
        }
    }

    #[inline]
    pub(super) fn ended(&mut self, number: u64, at: u64, end: End) {
        if let Some(record) = self.of(number) {
            record.ended_s = Some(seconds(at));
            record.end = end;
        }
    }

    fn of(&mut self, number: u64) -> Option<&mut Record> {
        let place = usize::try_from(number).ok()?;
        self.0.as_mut()?.get_mut(place)
    }
}
