//! The frame: nothing is lost or left waiting, and a stage that fails ends all with its reason.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use proptest::prelude::*;
use ullage_pipelines::frame::{Pipeline, Report, credits};

const ITEMS: u64 = 200;

#[derive(Clone, Copy, Debug)]
struct Shape {
    threads: usize,
    room: usize,
    under_way: usize,
    /// The stage that fails, from 0, and at which item; 4: none does.
    failing: usize,
    at: u64,
}

/// Four stages with credits from the last to the first; the sum of what came through.
fn run(shape: Shape) -> Result<(u64, Report)> {
    let mut sum = 0;
    let total = &mut sum;
    let fails = move |stage: usize, item: u64| -> Result<()> {
        if stage == shape.failing && item == shape.at {
            return Err(anyhow!("stage {stage} fails at {item}"));
        }
        Ok(())
    };
    let report = thread::scope(|scope| {
        let mut pipeline = Pipeline::new(scope);
        let (to_second, second) = pipeline.queue("first", shape.room);
        let (to_third, third) = pipeline.queue("second", shape.room);
        let (to_last, last) = pipeline.queue("third", shape.room);
        let (give_back, leave) = credits(shape.under_way);
        for _ in 0..shape.under_way {
            give_back.offer(());
        }
        pipeline.single("make", move |worker| {
            for item in 0..ITEMS {
                worker.receive(&leave)?;
                fails(0, item)?;
                worker.send(&to_second, item)?;
            }
            Ok(())
        });
        let bypass = to_last.clone();
        pipeline.several("fork", shape.threads, move |worker| {
            while let Some(item) = worker.receive(&second)? {
                fails(1, item)?;
                let next = if item % 3 == 0 { &bypass } else { &to_third };
                worker.send(next, item)?;
            }
            Ok(())
        });
        pipeline.several("pass", shape.threads, move |worker| {
            while let Some(item) = worker.receive(&third)? {
                fails(2, item)?;
                worker.send(&to_last, item)?;
            }
            Ok(())
        });
        pipeline.single("sum", move |worker| {
            while let Some(item) = worker.receive(&last)? {
                fails(3, item)?;
                *total += item;
                give_back.offer(());
            }
            Ok(())
        });
        pipeline.finish()
    })?;
    Ok((sum, report))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn it_ends_with_all_items_or_with_the_reason(
        threads in 1usize..5, room in 1usize..5, under_way in 1usize..9,
        failing in 0usize..5, at in 0..ITEMS,
    ) {
        let shape = Shape { threads, room, under_way, failing, at };
        let (tell, done) = mpsc::channel();
        thread::spawn(move || tell.send(run(shape)));
        let ended = done.recv_timeout(Duration::from_secs(60)).expect("it never ended");
        // The third stage is passed by.
        if failing == 4 || (failing == 2 && at % 3 == 0) {
            let (sum, report) = ended.expect("nothing failed");
            prop_assert_eq!(sum, ITEMS * (ITEMS - 1) / 2);
            prop_assert_eq!(report.stages[3].items, ITEMS);
            prop_assert!(report.queues.iter().all(|queue| queue.max_depth <= queue.capacity));
            prop_assert!(report.stages.iter().all(|stage| stage.busy_s >= 0.0 && stage.busy_share <= 1.0));
        } else {
            let reason = ended.expect_err("a stage failed").to_string();
            prop_assert_eq!(reason, format!("stage {failing} fails at {at}"));
        }
    }
}
