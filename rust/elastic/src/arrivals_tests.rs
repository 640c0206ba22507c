use proptest::prelude::*;

use super::*;

fn times(arrivals: &Arrivals, sessions: Option<u64>, until_s: Option<f64>) -> Vec<f64> {
    let random = Xoshiro256PlusPlus::seed_from_u64(5);
    let schedule = Schedule::new(arrivals, random, sessions, until_s.map(ns));
    schedule.map(seconds).collect()
}

fn between(times: &[f64], from_s: f64, to_s: f64) -> usize {
    times
        .iter()
        .filter(|at| (from_s..to_s).contains(*at))
        .count()
}

/// Six standard deviations of a Poisson number.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn near(count: usize, expected: f64) {
    let off = (count as f64 - expected).abs();
    assert!(off < 6.0 * expected.sqrt() + 1.0, "{count} for {expected}");
}

#[test]
fn as_many_come_as_the_rate_says() {
    let rate_hz = 2.0;
    let poisson = times(&Arrivals::Poisson { rate_hz }, None, Some(10_000.0));
    near(poisson.len(), 20_000.0);
    assert!(poisson.is_sorted());
    let uniform = times(&Arrivals::Uniform { rate_hz }, Some(4), None);
    assert_eq!(uniform, [0.5, 1.0, 1.5, 2.0]);
    let at_s = vec![0.0, 1.0, 1.0, 7.0];
    assert_eq!(
        times(&Arrivals::Trace { at_s }, None, Some(7.0)),
        [0.0, 1.0, 1.0]
    );
}

/// Many at a time are the same as one by one, to the last and beyond.
#[test]
fn many_are_drawn_as_one_by_one() {
    for rate_hz in [0.01, 1e7] {
        for (sessions, until) in [(Some(700), None), (None, Some(ns(600.0 / rate_hz)))] {
            for arrivals in [Arrivals::Poisson { rate_hz }, Arrivals::Uniform { rate_hz }] {
                let random = Xoshiro256PlusPlus::seed_from_u64(5);
                let mut schedule = Schedule::new(&arrivals, random.clone(), sessions, until);
                let mut many = [0; 900];
                many.chunks_mut(256).for_each(|part| schedule.fill(part));
                let one_by_one = Schedule::new(&arrivals, random, sessions, until);
                let expected: Vec<u64> = one_by_one.collect();
                assert!(
                    expected.len() > 500
                        && many[expected.len()..] == [u64::MAX; 900][expected.len()..]
                );
                assert_eq!(many[..expected.len()], expected);
            }
        }
    }
}

proptest! {
    /// Each is where the sum of the gaps is, to the nanosecond, however rare they are: nothing below
    /// one is lost, and nothing runs over. Where numbers end, it stays.
    #[test]
    fn poisson_times_are_the_sum_of_their_gaps(
        power in -12.0..9.0_f64, seed: u64, parts in prop::collection::vec(1..300_usize, 1..5),
    ) {
        let rate_hz = 10_f64.powf(power);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let arrivals = Arrivals::Poisson { rate_hz };
        let mut schedule = Schedule::new(&arrivals, random.clone(), None, None);
        let one_by_one = Schedule::new(&arrivals, random.clone(), None, None);
        let mut many = vec![0; parts.iter().sum()];
        let mut unfilled = &mut many[..];
        for length in parts {
            let (part, others) = unfilled.split_at_mut(length);
            schedule.fill(part);
            unfilled = others;
        }
        let all: Vec<u64> = one_by_one.take(many.len()).collect();
        prop_assert_eq!(&many[..all.len()], &all[..]);
        prop_assert!(many[all.len()..].iter().all(|at| *at == u64::MAX));
        let mut expected = 0.0;
        for (number, at) in (1_u32..).zip(many) {
            expected += random.sample::<f64, _>(Exp1) * 1e9 / rate_hz;
            if expected > 9e18 {
                prop_assert!(at > 1 << 62);
                continue;
            }
            // Half a millionth of a nanosecond a gap, and what a sum of 53 bits is off by.
            let off = 1.0 + f64::from(number) * 1e-6 + expected * 1e-12;
            #[expect(clippy::cast_precision_loss, reason = "it is in the bound")]
            let at_ns = at as f64;
            prop_assert!((at_ns - expected).abs() <= off, "{} {} {}", number, at_ns, expected);
        }
    }
}

#[test]
fn a_surge_comes_and_goes() {
    let surge = Arrivals::Surge {
        rate_hz: 1.0,
        peak_hz: 20.0,
        from_s: 1_000.0,
        for_s: 500.0,
    };
    let times = times(&surge, None, Some(2_500.0));
    near(between(&times, 0.0, 1_000.0), 1_000.0);
    near(between(&times, 1_000.0, 1_500.0), 10_000.0);
    near(between(&times, 1_500.0, 2_500.0), 1_000.0);
}

#[test]
fn a_crowd_comes_at_once_and_goes_by_and_by() {
    let crowd = |peak_hz| Arrivals::FlashCrowd {
        rate_hz: 100.0,
        peak_hz,
        from_s: 10.0,
        decay_s: 2.0,
    };
    let come = times(&crowd(10_000.0), None, Some(30.0));
    near(between(&come, 0.0, 10.0), 1_000.0);
    // 100 in a second, and 9900 · 2 · (1 - e^-1) of the crowd in its first two.
    let begin = 200.0 + 19_800.0 * (1.0 - (-1_f64).exp());
    near(between(&come, 10.0, 12.0), begin);
    near(come.len(), 3_000.0 + 19_800.0 * (1.0 - (-10_f64).exp()));
    assert!(come.is_sorted() && come.iter().all(|at| *at < 30.0));
    // A peak that is no higher is no crowd.
    near(times(&crowd(100.0), None, Some(30.0)).len(), 3_000.0);
}

#[test]
fn equal_distances_do_not_drift_and_may_begin_at_once() {
    let uniform = |rate_hz, count| {
        let arrivals = Arrivals::Uniform { rate_hz };
        let schedule = Schedule::seeded(&arrivals, 1, count, Some(1.0e6)).at_once();
        schedule.map(seconds).collect::<Vec<_>>()
    };
    let far = uniform(3.0, Some(2_999_999));
    assert!(far[0] == 0.0 && (far[2_999_997] - 999_999.0).abs() < 1e-6);
    for rate_hz in [1e-5, 3e-5] {
        let count = (rate_hz * 1e6_f64).round();
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let came = uniform(rate_hz, None).len() as f64;
        assert!((came - count).abs() < 0.5, "the end is open: {came}");
    }
}

#[test]
fn a_profile_is_followed_and_comes_again() {
    let rates_hz = vec![0.0, 5.0];
    let times = times(
        &Arrivals::Profile {
            rates_hz,
            step_s: 1_000.0,
        },
        None,
        Some(4_000.0),
    );
    assert_eq!(
        between(&times, 0.0, 1_000.0) + between(&times, 2_000.0, 3_000.0),
        0
    );
    near(between(&times, 1_000.0, 2_000.0), 5_000.0);
    near(between(&times, 3_000.0, 4_000.0), 5_000.0);
}

/// Years without a viewer are not gone through period by period: that would not end.
#[test]
fn a_profile_in_which_next_to_nobody_comes_is_drawn_too() {
    let seldom = |rate_hz, step_s, until_s| {
        let rates_hz = vec![0.0, rate_hz];
        times(&Arrivals::Profile { rates_hz, step_s }, None, Some(until_s))
    };
    assert!(seldom(1e-12, 1e-6, 1e6).is_empty());
    assert!(seldom(f64::MIN_POSITIVE, f64::MIN_POSITIVE, 1e6).is_empty());
    let some = seldom(1e-3, 1.0, 4e6);
    near(some.len(), 2_000.0);
    assert!(some.iter().all(|at| at % 2.0 >= 1.0));
}

#[test]
fn a_day_has_its_mean_and_its_peak() {
    let (rate_hz, swing, peak_at_s) = (0.5, 0.8, 72_000.0);
    let daily = Arrivals::Daily {
        rate_hz,
        swing,
        peak_at_s,
    };
    let times = times(&daily, None, Some(DAY_S));
    near(times.len(), rate_hz * DAY_S);
    let (peak, low) = (
        between(&times, 68_400.0, 75_600.0),
        between(&times, 25_200.0, 32_400.0),
    );
    assert!(
        peak > 6 * low,
        "{peak} at the peak, {low} twelve hours from it"
    );
}
