//! The frame of a pipeline: stages on threads, bounded queues between them, and what each waited for.
//!
//! A stage that fails ends all others with its reason: every wait is for the queue or for the end,
//! whichever comes first, so no thread can stay blocked.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::Error;
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded, select};
use serde::Serialize;

use crate::ratio;
use crate::usage::thread_cpu;

/// Why a stage ends before its input does.
#[derive(Debug)]
pub enum Ending {
    /// Another stage failed, or nobody takes what this one makes.
    Stopped,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Ending {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What all threads of a pipeline share: whether it is to end, and why.
struct Stop {
    stopped: AtomicBool,
    reason: Mutex<Option<Error>>,
    /// Dropping it wakes all who listen to `bell`.
    rope: Mutex<Option<Sender<Infallible>>>,
    bell: Receiver<Infallible>,
}

impl Stop {
    fn new() -> Self {
        let (rope, bell) = bounded(0);
        Self {
            stopped: AtomicBool::new(false),
            reason: Mutex::new(None),
            rope: Mutex::new(Some(rope)),
            bell,
        }
    }

    fn fail(&self, reason: Error) {
        let mut held = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        held.get_or_insert(reason);
        self.stopped.store(true, Ordering::Release);
        self.rope
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

/// How deep a queue was, looked at whenever something was put in.
#[derive(Default)]
struct Depth {
    sends: AtomicU64,
    sum: AtomicU64,
    max: AtomicUsize,
}

/// The end of a queue that is put into. The queue ends when all clones are dropped.
pub struct Output<T> {
    sender: Sender<T>,
    depth: Arc<Depth>,
}

/// The end of a queue that is taken from.
pub struct Input<T> {
    receiver: Receiver<T>,
    /// Are its items work, or only the leave to do some?
    work: bool,
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            depth: Arc::clone(&self.depth),
        }
    }
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        Self {
            receiver: self.receiver.clone(),
            work: self.work,
        }
    }
}

impl<T> Output<T> {
    /// Puts in without waiting; what does not fit, or nobody wants, is dropped.
    pub fn offer(&self, item: T) {
        let _ = self.sender.try_send(item);
    }

    fn watch(&self) {
        let depth = self.sender.len();
        self.depth.sends.fetch_add(1, Ordering::Relaxed);
        self.depth.sum.fetch_add(depth as u64, Ordering::Relaxed);
        self.depth.max.fetch_max(depth, Ordering::Relaxed);
    }
}

/// One thread of a stage: its waits go through it, so that they are known.
pub struct Worker {
    stop: Arc<Stop>,
    waited_in: Duration,
    waited_out: Duration,
    items: u64,
}

impl Worker {
    /// The next item; None when the queue has ended.
    ///
    /// # Errors
    /// `Stopped` when the pipeline is to end.
    pub fn receive<T>(&mut self, input: &Input<T>) -> Result<Option<T>, Ending> {
        if self.stop.stopped.load(Ordering::Acquire) {
            return Err(Ending::Stopped);
        }
        let item = match input.receiver.try_recv() {
            Ok(item) => Some(item),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                let began = Instant::now();
                let item = select! {
                    recv(input.receiver) -> item => Ok(item.ok()),
                    recv(self.stop.bell) -> _ => Err(Ending::Stopped),
                };
                self.waited_in += began.elapsed();
                item?
            }
        };
        self.items += u64::from(input.work && item.is_some());
        Ok(item)
    }

    /// Puts an item in as soon as there is room.
    ///
    /// # Errors
    /// `Stopped` when the pipeline is to end, or nobody takes from the queue any more.
    pub fn send<T>(&mut self, output: &Output<T>, item: T) -> Result<(), Ending> {
        if self.stop.stopped.load(Ordering::Acquire) {
            return Err(Ending::Stopped);
        }
        match output.sender.try_send(item) {
            Ok(()) => {}
            Err(TrySendError::Disconnected(_)) => return Err(Ending::Stopped),
            Err(TrySendError::Full(item)) => {
                let began = Instant::now();
                let sent = select! {
                    send(output.sender, item) -> sent => sent.map_err(|_| Ending::Stopped),
                    recv(self.stop.bell) -> _ => Err(Ending::Stopped),
                };
                self.waited_out += began.elapsed();
                sent?;
            }
        }
        output.watch();
        Ok(())
    }
}

/// What the threads of one stage did, summed over them. Times in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    pub name: &'static str,
    pub threads: usize,
    /// Items that it took; 0 for the first stage.
    pub items: u64,
    /// Time in which its threads were not waiting for a queue, whether on a CPU or not.
    pub busy_s: f64,
    /// Time on a CPU.
    pub cpu_s: f64,
    /// Time waiting for something to do.
    pub wait_in_s: f64,
    /// Time waiting for room in the next queue.
    pub wait_out_s: f64,
    /// `busy_s` over the lifetime of all its threads.
    pub busy_share: f64,
}

/// How deep one queue was, as seen each time when something had been put in.
#[derive(Clone, Debug, Serialize)]
pub struct QueueReport {
    pub name: &'static str,
    pub capacity: usize,
    pub mean_depth: f64,
    pub max_depth: usize,
}

/// What a pipeline that came to its end did.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub stages: Vec<StageReport>,
    pub queues: Vec<QueueReport>,
}

struct Times {
    lifetime: Duration,
    cpu: Duration,
    waited_in: Duration,
    waited_out: Duration,
    items: u64,
}

struct Stage<'scope> {
    name: &'static str,
    threads: Vec<ScopedJoinHandle<'scope, Times>>,
}

/// A pipeline whose threads run within a scope, so that they may borrow what outlives it.
pub struct Pipeline<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stop: Arc<Stop>,
    stages: Vec<Stage<'scope>>,
    queues: Vec<(&'static str, usize, Arc<Depth>)>,
}

impl<'scope, 'env> Pipeline<'scope, 'env> {
    /// One without stages.
    #[must_use]
    pub fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        Self {
            scope,
            stop: Arc::new(Stop::new()),
            stages: Vec::new(),
            queues: Vec::new(),
        }
    }

    /// A queue with room for `capacity` items; it stands in the report by its name.
    pub fn queue<T>(&mut self, name: &'static str, capacity: usize) -> (Output<T>, Input<T>) {
        let (output, input) = credits(capacity);
        self.queues
            .push((name, capacity, Arc::clone(&output.depth)));
        let work = true;
        (output, Input { work, ..input })
    }

    /// Starts a stage of one thread. What the body holds of queues ends with it.
    pub fn single<F>(&mut self, name: &'static str, body: F)
    where
        F: FnOnce(&mut Worker) -> Result<(), Ending> + Send + 'scope,
    {
        let threads = vec![self.spawn(body)];
        self.stages.push(Stage { name, threads });
    }

    /// Starts a stage of several threads, each with a clone of the body.
    pub fn several<F>(&mut self, name: &'static str, threads: usize, body: F)
    where
        F: FnOnce(&mut Worker) -> Result<(), Ending> + Clone + Send + 'scope,
    {
        let threads = (0..threads).map(|_| self.spawn(body.clone())).collect();
        self.stages.push(Stage { name, threads });
    }

    fn spawn<F>(&self, body: F) -> ScopedJoinHandle<'scope, Times>
    where
        F: FnOnce(&mut Worker) -> Result<(), Ending> + Send + 'scope,
    {
        let stop = Arc::clone(&self.stop);
        self.scope.spawn(move || live(body, stop))
    }

    /// Waits for the end of all stages.
    ///
    /// # Errors
    /// The reason of the first stage that failed.
    ///
    /// # Panics
    /// When a stage did.
    pub fn finish(self) -> Result<Report, Error> {
        let stages: Vec<StageReport> = self.stages.into_iter().map(summed).collect();
        let mut reason = self
            .stop
            .reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = reason.take() {
            return Err(reason);
        }
        let queues = self
            .queues
            .into_iter()
            .map(|(name, capacity, depth)| QueueReport {
                name,
                capacity,
                mean_depth: ratio(
                    depth.sum.load(Ordering::Relaxed),
                    depth.sends.load(Ordering::Relaxed),
                ),
                max_depth: depth.max.load(Ordering::Relaxed),
            })
            .collect();
        Ok(Report { stages, queues })
    }
}

/// A queue outside the report: what a last stage gives back to the first, so that only so much is
/// under way.
#[must_use]
pub fn credits<T>(capacity: usize) -> (Output<T>, Input<T>) {
    let (sender, receiver) = bounded(capacity);
    let depth = Arc::default();
    let work = false;
    (Output { sender, depth }, Input { receiver, work })
}

fn live<F>(body: F, stop: Arc<Stop>) -> Times
where
    F: FnOnce(&mut Worker) -> Result<(), Ending>,
{
    let began = Instant::now();
    let mut worker = Worker {
        stop,
        waited_in: Duration::ZERO,
        waited_out: Duration::ZERO,
        items: 0,
    };
    if let Err(Ending::Failed(reason)) = body(&mut worker) {
        worker.stop.fail(reason);
    }
    Times {
        lifetime: began.elapsed(),
        cpu: thread_cpu(),
        waited_in: worker.waited_in,
        waited_out: worker.waited_out,
        items: worker.items,
    }
}

fn summed(stage: Stage<'_>) -> StageReport {
    let threads = stage.threads.len();
    let times: Vec<Times> = stage
        .threads
        .into_iter()
        .map(|thread| thread.join().expect("a stage panicked"))
        .collect();
    let total =
        |part: fn(&Times) -> Duration| times.iter().map(part).sum::<Duration>().as_secs_f64();
    let (lifetime, wait_in_s, wait_out_s) = (
        total(|t| t.lifetime),
        total(|t| t.waited_in),
        total(|t| t.waited_out),
    );
    let busy_s = (lifetime - wait_in_s - wait_out_s).max(0.0);
    StageReport {
        name: stage.name,
        threads,
        items: times.iter().map(|t| t.items).sum(),
        busy_s,
        cpu_s: total(|t| t.cpu),
        wait_in_s,
        wait_out_s,
        busy_share: if lifetime > 0.0 {
            busy_s / lifetime
        } else {
            0.0
        },
    }
}
