use proptest::prelude::*;

use super::*;

#[test]
#[expect(clippy::float_cmp, reason = "small whole numbers")]
fn a_distribution_of_known_numbers() {
    let mut ticks: Vec<i64> = (1..=1000).rev().collect();
    let summary = Summary::of(&mut ticks, 2.0).expect("values");
    assert_eq!((summary.min_ns, summary.max_ns), (2.0, 2000.0));
    assert_eq!((summary.p01_ns, summary.p50_ns), (20.0, 1000.0));
    assert_eq!((summary.p99_ns, summary.p999_ns), (1980.0, 1998.0));
    assert_eq!(summary.mean_ns, 1001.0);
    // The variance of 1..n is n (n + 1) / 12.
    assert!((summary.sd_ns - 2.0 * (1000.0_f64 * 1001.0 / 12.0).sqrt()).abs() < 1e-9);
    assert_eq!(Summary::of(&mut [], 1.0), None);
    assert_eq!(
        Summary::of(&mut [-3], 1.0).map(|summary| summary.sd_ns),
        Some(0.0)
    );
}

/// Ranks as in the tables of the sign test (Conover, Practical Nonparametric Statistics, A3).
#[test]
fn ranks_of_the_median_are_those_of_the_tables() {
    for (count, skip, confidence) in [
        (5, 0, 0.9375),
        (6, 0, 0.968_75),
        (9, 1, 0.960_94),
        (20, 5, 0.958_61),
        (100, 39, 0.964_80),
    ] {
        let (skipped, with) = trim(count);
        assert_eq!(skipped, skip, "{count}");
        assert!((with - confidence).abs() < 1e-5, "{count}: {with}");
    }
    let (skip, with) = trim(100_000);
    // 1.96 × √n / 2 ranks below the middle.
    assert!((49_680..49_700).contains(&skip) && with >= 0.95, "{skip}");
}

#[test]
#[expect(clippy::float_cmp, reason = "numbers that were put in")]
fn few_values_say_so() {
    let single = Interval::of(&mut [4.0]).expect("one");
    assert_eq!((single.median, single.low, single.high), (4.0, 4.0, 4.0));
    assert_eq!(single.confidence, 0.0);
    let pair = Interval::of(&mut [1.0, 3.0]).expect("two");
    assert_eq!((pair.median, pair.confidence), (2.0, 0.5));
    assert_eq!(Interval::of(&mut []), None);
}

#[test]
fn what_is_not_positive_is_under() {
    let histogram = Histogram::of([0.0, -5.0, 0.5, 1.0, 99.0].into_iter(), 1);
    assert_eq!((histogram.under, histogram.bins.len()), (3, 2));
    assert_eq!(Histogram::of(std::iter::empty(), 1).bins, []);
}

proptest! {
    #[test]
    fn every_value_is_in_its_bin(value in 1.0_f64..1e15, per_decade in 1_u32..200) {
        let bin = bin(value, per_decade).expect("bin");
        prop_assert!(edge(bin, per_decade) <= value && value < edge(bin + 1, per_decade));
    }

    #[test]
    fn edges_are_in_their_bin(bin_number in 0_usize..1000, per_decade in 1_u32..100) {
        prop_assume!(bin_number < 20 * per_decade as usize);
        let value = edge(bin_number, per_decade);
        prop_assert_eq!(bin(value, per_decade), Some(bin_number));
    }

    #[test]
    fn nothing_is_lost(values in prop::collection::vec(-10.0_f64..1e9, 0..200)) {
        let count = values.len() as u64;
        let histogram = Histogram::of(values.into_iter(), 20);
        let binned: u64 = histogram.bins.iter().map(|bin| bin.count).sum();
        prop_assert_eq!(histogram.under + binned, count);
    }

    #[test]
    fn an_interval_holds_its_median(mut values in prop::collection::vec(-1e6_f64..1e6, 1..300)) {
        let interval = Interval::of(&mut values).expect("values");
        prop_assert!(interval.low <= interval.median && interval.median <= interval.high);
        prop_assert!(values.len() < 6 || interval.confidence >= 0.95);
    }

    #[test]
    fn quantiles_are_in_order(mut ticks in prop::collection::vec(-1000_i64..100_000, 1..300)) {
        let it = Summary::of(&mut ticks, 0.4).expect("values");
        let order = [
            it.min_ns, it.p01_ns, it.p25_ns, it.p50_ns, it.p75_ns, it.p99_ns, it.p999_ns, it.max_ns,
        ];
        prop_assert!(order.is_sorted());
        prop_assert!(it.min_ns <= it.mean_ns + 1e-6 && it.mean_ns <= it.max_ns + 1e-6);
    }
}
