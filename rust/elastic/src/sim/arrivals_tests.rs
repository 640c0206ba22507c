use rand::SeedableRng;

use super::*;

fn times(arrivals: &Arrivals, sessions: Option<u64>, until_s: Option<f64>) -> Vec<f64> {
    arrivals.check().expect("good arrivals");
    let random = Xoshiro256PlusPlus::seed_from_u64(5);
    let coming = Coming::new(arrivals, random, sessions, until_s.map(ns));
    coming.map(seconds).collect()
}

fn between(times: &[f64], from_s: f64, to_s: f64) -> usize {
    times
        .iter()
        .filter(|at| (from_s..to_s).contains(*at))
        .count()
}

/// Six standard deviations of a Poisson number.
#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn near(found: usize, expected: f64) {
    let off = (found as f64 - expected).abs();
    assert!(off < 6.0 * expected.sqrt() + 1.0, "{found} for {expected}");
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
                let mut coming = Coming::new(&arrivals, random.clone(), sessions, until);
                let mut many = [0; 900];
                many.chunks_mut(256).for_each(|part| coming.fill(part));
                let one_by_one = Coming::new(&arrivals, random, sessions, until);
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

#[test]
fn a_crowd_comes_and_goes() {
    let crowd = Arrivals::FlashCrowd {
        rate_hz: 1.0,
        crowd_rate_hz: 20.0,
        from_s: 1_000.0,
        for_s: 500.0,
    };
    let times = times(&crowd, None, Some(2_500.0));
    near(between(&times, 0.0, 1_000.0), 1_000.0);
    near(between(&times, 1_000.0, 1_500.0), 10_000.0);
    near(between(&times, 1_500.0, 2_500.0), 1_000.0);
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
