//! The side that asks, and knows when to stop.

use super::Standing;
use super::exchange::{Contradiction, Exchange, Fix};
use super::smallest::Smallest;
use super::wire::{Body, LENGTH, Message, Token};

/// When to stop. D, K and N are the published ones (S4.9), which alone may go on for ever: 17,491
/// messages were seen (clocks.md §1). Hence the caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// D: exchanges before anything counts. If nothing comes after them, the best of them is taken.
    pub dropped: u32,
    /// K: the smallest round trips' standard deviation is under this, in nanoseconds.
    pub spread_ns: u64,
    /// N: how many are the smallest, 2 to [`super::KEEP_MOST`]; under 8, there is no statistical bound.
    pub smallest: usize,
    /// No more requests and answers together than this.
    pub messages: u32,
    /// Once there is one exchange, no longer than this, in nanoseconds; 0: than [`Self::LEAST_NS`] or
    /// [`Self::ROUND_TRIPS`] of the least round trips, whichever is more.
    pub time_ns: u64,
    /// For the first answer, no longer than this, in nanoseconds.
    pub patience_ns: u64,
    /// A request without an answer is taken for lost after this, in nanoseconds; after twice as long
    /// each time that one was. Never less than twice the last round trip.
    pub reply_ns: u64,
    /// ρ, in parts per billion of the client's time.
    pub worst_ppb: u32,
}

impl Rules {
    /// Where there is no cap on time, so long may a synchronisation take on any path, in nanoseconds.
    pub const LEAST_NS: u64 = 1_000_000;
    /// And so many of its least round trips: some for the D, and enough for the N to be alike. Where a
    /// round trip is 89 µs (S4.10), 1 ms is 11 exchanges; from 125 µs on it is fewer than the 8 that the
    /// statistical bound needs.
    pub const ROUND_TRIPS: u64 = 64;

    /// As published, within 200 messages and the round trips' cap on time; ρ is 100 ppm, two
    /// oscillators of ±50 ppm (clocks.md §5).
    pub const PUBLISHED: Self = Self {
        dropped: 5,
        spread_ns: 500,
        smallest: 20,
        messages: 200,
        time_ns: 0,
        patience_ns: 1_000_000_000,
        reply_ns: 1_000_000,
        worst_ppb: 100_000,
    };

    /// The cap on time where the least round trip is this.
    #[must_use]
    pub fn longest_ns(&self, least_rtt_ns: u64) -> u64 {
        if self.time_ns > 0 {
            return self.time_ns;
        }
        Self::LEAST_NS.max(least_rtt_ns.saturating_mul(Self::ROUND_TRIPS))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::PUBLISHED
    }
}

/// Why it stopped, with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The published rule: the N smallest round trips are alike.
    Alike,
    /// The cap on messages.
    Messages,
    /// The cap on time.
    Time,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody answered, within the patience or the cap on messages.
    NoAnswer,
    /// The answers cannot all be true, or the own clock ran backwards.
    Contradiction,
}

impl From<Contradiction> for Failure {
    fn from(_: Contradiction) -> Self {
        Self::Contradiction
    }
}

/// What was sent and came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: u32,
    pub answers: u32,
    /// Requests given up.
    pub lost: u32,
    /// Datagrams that are no answer of this version; ignored.
    pub malformed: u32,
    /// Answers of another run; ignored.
    pub foreign: u32,
    /// Answers to another request than the last one, duplicates among them; ignored.
    pub old: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exchange with the least round trip.
    pub best: Exchange,
    pub fix: Fix,
    /// Why there was no more.
    pub stop: Stop,
    pub counts: Counts,
    /// How long it took, by the client's clock.
    pub took_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this, at once, and ask again.
    Send([u8; LENGTH]),
    /// Wait for a datagram, but not after this instant; then ask again.
    Wait {
        /// By the client's clock.
        until_ns: u64,
    },
    Done(Result<Outcome, Failure>),
}

#[derive(Clone, Copy, Debug)]
pub struct Client {
    rules: Rules,
    token: Token,
    started_ns: u64,
    now_ns: u64,
    wait_ns: u64,
    waiting: Option<Waiting>,
    /// The best of those that count, and of the first D.
    best: Option<Exchange>,
    early: Option<Exchange>,
    smallest: Smallest,
    /// The same of all, the first D included: there may be few others.
    smallest_of_all: Smallest,
    counts: Counts,
    done: Option<Result<Outcome, Failure>>,
}

/// The request whose answer is waited for; its sequence is the number of those sent.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    t1: u64,
    until_ns: u64,
}

impl Client {
    /// Starts now, by the client's clock, which must not run backwards.
    #[must_use]
    pub fn new(rules: Rules, token: Token, now_ns: u64) -> Self {
        Self {
            rules,
            token,
            started_ns: now_ns,
            now_ns,
            wait_ns: rules.reply_ns,
            waiting: None,
            best: None,
            early: None,
            smallest: Smallest::new(rules.smallest),
            smallest_of_all: Smallest::new(rules.smallest),
            counts: Counts::default(),
            done: None,
        }
    }

    /// What to do, now. Asked at the instants it names and after every datagram, it comes to an end
    /// within the caps.
    pub fn poll(&mut self, now_ns: u64) -> Action {
        self.tick(now_ns);
        if let Some(stop) = self.stop() {
            self.end(stop);
        }
        if let Some(done) = self.done {
            return Action::Done(done);
        }
        if let Some(waiting) = self.waiting {
            let until_ns = waiting.until_ns.min(self.deadline());
            return Action::Wait { until_ns };
        }
        self.send()
    }

    /// A datagram came, now: the clock was read after it came. `awake`: this side was waiting for it
    /// with its eyes open, so that no scheduler took part.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64, awake: bool) {
        let counts = &mut self.counts;
        let parsed = Message::parse(bytes).map(|message| (message, message.body));
        let Ok((message, Body::Response { t2, t3, standing })) = parsed else {
            counts.malformed = counts.malformed.saturating_add(1);
            return;
        };
        if message.token != self.token {
            counts.foreign = counts.foreign.saturating_add(1);
            return;
        }
        let answers_last = message.sequence == u64::from(counts.sent);
        let waiting = self
            .waiting
            .filter(|it| answers_last && it.t1 == message.t1);
        let Some(waiting) = waiting.filter(|_| self.done.is_none()) else {
            counts.old = counts.old.saturating_add(1);
            return;
        };
        self.waiting = None;
        let awake = awake && standing.awake;
        let standing = Standing { awake, ..standing };
        if self.take([waiting.t1, t2, t3, now_ns], standing).is_err() {
            self.done = Some(Err(Failure::Contradiction));
        }
    }

    /// What was sent and came until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Time passes: the answer may be overdue.
    fn tick(&mut self, now_ns: u64) {
        if now_ns < self.now_ns && self.done.is_none() {
            self.done = Some(Err(Failure::Contradiction));
        }
        self.now_ns = now_ns;
        if self.waiting.is_some_and(|it| now_ns >= it.until_ns) {
            self.waiting = None;
            self.counts.lost = self.counts.lost.saturating_add(1);
            self.wait_ns = self.wait_ns.saturating_mul(2);
        }
    }

    fn take(&mut self, instants: [u64; 4], standing: Standing) -> Result<(), Contradiction> {
        let worst_ppb = self.rules.worst_ppb;
        let exchange = Exchange::new(instants, standing, worst_ppb)?;
        let fix = exchange.fix(worst_ppb);
        let fixes = [self.best, self.early].into_iter().flatten();
        let mut fixes = fixes.map(|other| other.fix(worst_ppb));
        if !fixes.all(|other| fix.agrees(&other, worst_ppb)) {
            return Err(Contradiction);
        }
        self.counts.answers = self.counts.answers.saturating_add(1);
        self.wait_ns = self.rules.reply_ns.max(exchange.rtt_ns().saturating_mul(2));
        let (rtt_ns, theta) = (exchange.rtt_ns(), exchange.theta());
        self.smallest_of_all.add(rtt_ns, theta);
        let place = if self.counts.answers > self.rules.dropped {
            self.smallest.add(rtt_ns, theta);
            &mut self.best
        } else {
            &mut self.early
        };
        if place.is_none_or(|best| exchange.rtt_ns() < best.rtt_ns()) {
            *place = Some(exchange);
        }
        Ok(())
    }

    fn best(&self) -> Option<Exchange> {
        self.best.or(self.early)
    }

    /// Of all exchanges, the first D included.
    fn least_rtt_ns(&self) -> Option<u64> {
        let exchanges = [self.best, self.early].into_iter().flatten();
        exchanges.map(|exchange| exchange.rtt_ns()).min()
    }

    /// When it is over at the latest.
    fn deadline(&self) -> u64 {
        let most = self
            .least_rtt_ns()
            .map_or(self.rules.patience_ns, |rtt_ns| {
                self.rules.longest_ns(rtt_ns)
            });
        self.started_ns.saturating_add(most)
    }

    fn stop(&self) -> Option<Stop> {
        if self.waiting.is_none() && self.smallest.within(self.rules.spread_ns) {
            return Some(Stop::Alike);
        }
        if self.now_ns >= self.deadline() {
            return Some(Stop::Time);
        }
        // The next request may have an answer.
        let next = self
            .counts
            .sent
            .saturating_add(self.counts.answers)
            .saturating_add(2);
        (self.waiting.is_none() && next > self.rules.messages).then_some(Stop::Messages)
    }

    fn end(&mut self, stop: Stop) {
        let outcome = self.best().map(|best| Outcome {
            best,
            fix: self.smallest_of_all.sd_ns().map_or_else(
                || best.fix(self.rules.worst_ppb),
                |sd_ns| best.best_of(sd_ns, self.rules.worst_ppb),
            ),
            stop,
            counts: self.counts,
            took_ns: self.now_ns.saturating_sub(self.started_ns),
        });
        self.done.get_or_insert(outcome.ok_or(Failure::NoAnswer));
    }

    fn send(&mut self) -> Action {
        self.counts.sent = self.counts.sent.saturating_add(1);
        self.waiting = Some(Waiting {
            t1: self.now_ns,
            until_ns: self.now_ns.saturating_add(self.wait_ns.max(1)),
        });
        let request = Message {
            token: self.token,
            sequence: u64::from(self.counts.sent),
            t1: self.now_ns,
            body: Body::Request,
        };
        Action::Send(request.encode())
    }
}
