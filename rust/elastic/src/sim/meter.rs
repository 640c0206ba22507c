//! How many viewers and nodes there are over time, in all their summaries.

use super::curves::{
    COMING, Curves, LEAVING, NODES, READY, SERIES, Step, Steps, WAITING, WATCHING,
};
use super::elasticity::{Adherence, Elasticity};
use super::levels::{Level, Series, Sum};
use super::outcome::Levels;
use super::time::seconds;
use crate::policy::View;

/// Sums at an instant.
type Sums = [Sum; SERIES];

/// All that do not change with most events: waiting, coming, ready, leaving.
type Others = (u64, u32, u32, u32);

/// Told after each event how things stand.
#[derive(Debug)]
pub(super) struct Meter {
    series: [Series; SERIES],
    others: Others,
    adherence: Adherence,
    steps: Option<Steps>,
    step_begin: Sums,
    /// The next end of a step, or of the warm-up.
    mark: u64,
    warm_up: u64,
    steady_begin: Option<Sums>,
    steady: Option<Levels>,
}

impl Meter {
    pub(super) fn new(room: u32, points: u32, warm_up: u64) -> Self {
        let mut new = Self {
            series: [Series::default(); SERIES],
            others: Others::default(),
            adherence: Adherence::new(room),
            steps: (points > 0).then(|| Steps::new(points)),
            step_begin: Sums::default(),
            mark: 0,
            warm_up,
            steady_begin: None,
            steady: None,
        };
        new.set_mark();
        new
    }

    /// An event has happened: from now on it is so.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "after each event")]
    pub(super) fn set(&mut self, at: u64, view: &View) {
        if at >= self.mark {
            self.pass(at);
        }
        self.series[WATCHING].set(at, view.served);
        self.adherence.set_viewers(at, view.served + view.waiting);
        let others = (view.waiting, view.coming, view.ready, view.leaving);
        if others != self.others {
            self.set_others(at, others);
        }
    }

    #[inline(never)]
    fn set_others(&mut self, at: u64, others: Others) {
        self.others = others;
        let (waiting, coming, ready, leaving) = others;
        let (coming, ready) = (u64::from(coming), u64::from(ready));
        let leaving = u64::from(leaving);
        self.series[WAITING].set(at, waiting);
        self.series[COMING].set(at, coming);
        self.series[READY].set(at, ready);
        self.series[LEAVING].set(at, leaving);
        self.series[NODES].set(at, coming + ready + leaving);
        self.adherence.set_supply(at, ready);
    }

    fn set_mark(&mut self) {
        let step = self.steps.as_ref().map_or(u64::MAX, Steps::end);
        let warm = if self.steady_begin.is_some() {
            u64::MAX
        } else {
            self.warm_up
        };
        self.mark = step.min(warm);
    }

    /// Ends the steps, and the warm-up, that end until then.
    #[cold]
    fn pass(&mut self, at: u64) {
        while self.mark <= at {
            let mark = self.mark;
            self.look(mark);
            if self.steady_begin.is_none() && mark == self.warm_up {
                self.steady_begin = Some(self.sums());
                for series in &mut self.series {
                    series.begin_steady();
                }
            }
            if self.steps.as_ref().is_some_and(|steps| steps.end() == mark) {
                let step = self.step();
                self.step_begin = self.sums();
                if let Some(steps) = &mut self.steps {
                    steps.push(step);
                }
            }
            self.set_mark();
        }
    }

    fn look(&mut self, at: u64) {
        for series in &mut self.series {
            series.look(at);
        }
    }

    fn sums(&self) -> Sums {
        std::array::from_fn(|of| self.series[of].sum)
    }

    /// The step so far; the next one begins.
    fn step(&mut self) -> Step {
        std::array::from_fn(|of| {
            let series = &mut self.series[of];
            let area = series.sum.area - self.step_begin[of].area;
            (area, series.end_step())
        })
    }

    /// The last viewer has come: the end of the steady part.
    pub(super) fn last_arrival(&mut self, at: u64) {
        if at >= self.mark {
            self.pass(at);
        }
        self.look(at);
        if let Some(begin) = self.steady_begin {
            self.steady = Some(self.levels(&begin, self.warm_up, at, |series| series.steady));
        }
    }

    pub(super) fn steady(&self) -> Option<Levels> {
        self.steady
    }

    fn levels(&self, begin: &Sums, from: u64, to: u64, most: fn(&Series) -> u64) -> Levels {
        let level = |of: usize| {
            let series = &self.series[of];
            series.sum.level(begin[of], to - from, most(series))
        };
        let nodes: Level = level(NODES);
        Levels {
            from_s: seconds(from),
            to_s: seconds(to),
            watching: level(WATCHING),
            waiting: level(WAITING),
            coming: level(COMING),
            ready: level(READY),
            leaving: level(LEAVING),
            node_s: nodes.mean * seconds(to - from),
            most_nodes: nodes.most,
        }
    }

    /// The run is over.
    pub(super) fn finish(mut self, end: u64) -> (Levels, Elasticity, Option<Curves>) {
        if end >= self.mark {
            self.pass(end);
        }
        self.look(end);
        let whole = self.levels(&Sums::default(), 0, end, |series| series.whole);
        let last = self.step();
        let curves = self.steps.map(|steps| steps.curves(last, end));
        (whole, self.adherence.finish(end), curves)
    }
}
