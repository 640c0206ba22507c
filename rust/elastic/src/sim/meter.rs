//! How many viewers and nodes there are over time, in all their summaries.

use super::curves::{
    COMING, Curves, LEAVING, NODES, READY, SERIES, Step, Steps, WAITING, WATCHING,
};
use super::elasticity::Elasticity;
use super::levels::{Level, Series, Sum};
use super::offered::Offered;
use super::outcome::Levels;
use crate::policy::View;
use crate::units::seconds;

type Sums = [Sum; SERIES];

/// All that do not change with most events: waiting, coming, ready, leaving.
type Others = (u64, u32, u32, u32);

/// Told after each event how things stand.
pub(super) struct Meter {
    pub(super) offered: Offered,
    series: [Series; SERIES],
    others: Others,
    steps: Option<Steps>,
    step_begin: Sums,
    /// The next end of a step, or of the warm-up, or when the next viewer would go.
    mark: u64,
    warm_up: u64,
    steady_begin: Option<Sums>,
    steady: Option<Levels>,
}

impl Meter {
    pub(super) fn new(offered: Offered, points: u32, warm_up: u64) -> Self {
        let mut new = Self {
            offered,
            series: [Series::default(); SERIES],
            others: Others::default(),
            steps: (points > 0).then(|| Steps::new(points)),
            step_begin: Sums::default(),
            mark: 0,
            warm_up,
            steady_begin: None,
            steady: None,
        };
        new.mark = new.end();
        new
    }

    /// An event happens then: until then it was as it was told.
    #[inline]
    pub(super) fn until(&mut self, at: u64) {
        if at >= self.mark {
            self.pass(at);
        }
    }

    /// A viewer that is not served as it comes would go then, or one that has lost its node.
    pub(super) fn would_go(&mut self, at: u64) {
        self.offered.would_go(at);
        self.mark = self.mark.min(at);
    }

    /// Takes over the counts that hold from now on.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "after each event")]
    pub(super) fn set(&mut self, at: u64, view: &View) {
        self.series[WATCHING].set(at, view.served);
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
        self.offered.set_supply(at, ready);
    }

    /// The next end of a step, or of the warm-up.
    fn end(&self) -> u64 {
        let step = self.steps.as_ref().map_or(u64::MAX, Steps::end);
        let warm = if self.steady_begin.is_some() {
            u64::MAX
        } else {
            self.warm_up
        };
        step.min(warm)
    }

    /// Ends the steps, and the warm-up, that end until then; who would go until then goes.
    #[inline(never)]
    fn pass(&mut self, at: u64) {
        self.offered.leave_until(at);
        while self.end() <= at {
            let mark = self.end();
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
        }
        self.mark = self.end().min(self.offered.next);
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
        self.until(at);
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

    pub(super) fn finish(mut self, end: u64) -> (Levels, Option<Elasticity>, Option<Curves>) {
        self.until(end);
        self.look(end);
        let whole = self.levels(&Sums::default(), 0, end, |series| series.whole);
        let last = self.step();
        let curves = self.steps.map(|steps| steps.curves(last, end));
        (whole, self.offered.finish(end), curves)
    }
}
