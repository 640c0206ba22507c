use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;

/// What is done to a queue: `Some` puts an entry so far after the last one taken.
fn steps() -> impl Strategy<Value = Vec<Option<u64>>> {
    let far = prop_oneof![
        Just(0),
        0..4_u64,
        0..1_000_u64,
        0..1_000_000_000_u64,
        Just(1 << 50),
        0..1_u64 << 60
    ];
    prop::collection::vec(
        prop_oneof![3 => far.prop_map(Some), 2 => Just(None)],
        0..2_000,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_gives_what_a_heap_gives(steps in steps()) {
        let (mut ladder, mut heap) = (Ladder::default(), BinaryHeap::new());
        let mut now = 0;
        for (number, step) in steps.iter().enumerate() {
            if let Some(later) = step {
                let new = entry(now + later, number as u64 % 7);
                ladder.push(new);
                heap.push(Reverse(new));
            } else {
                let first = heap.pop().map(|Reverse(first)| first);
                prop_assert_eq!(ladder.peek(), first);
                ladder.pop();
                now = first.map_or(now, |first| parts(first).0);
            }
        }
        while let Some(Reverse(first)) = heap.pop() {
            prop_assert_eq!(ladder.peek(), Some(first));
            ladder.pop();
        }
        prop_assert_eq!(ladder.peek(), None);
    }
}

/// Many pending, in steady state, and now and then one that is very far away.
#[test]
fn it_gives_what_a_heap_gives_when_it_is_full() {
    let (mut ladder, mut heap) = (Ladder::default(), BinaryHeap::new());
    let mut number = 1_u64;
    let mut draw = || {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let later = number >> 34;
        if later.is_multiple_of(997) {
            later << 20
        } else {
            later
        }
    };
    for event in 0..20_000 {
        let new = entry(draw(), event);
        ladder.push(new);
        heap.push(Reverse(new));
    }
    for event in 0..100_000 {
        let first = heap.pop().expect("it is never empty").0;
        assert_eq!(ladder.peek(), Some(first));
        ladder.pop();
        let new = entry(parts(first).0 + draw(), event);
        ladder.push(new);
        heap.push(Reverse(new));
    }
}
