use super::*;

fn mean_s(time: &Time) -> f64 {
    let random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut draw = Draw::new(time, random).expect("a good time");
    (0..100_000).map(|_| seconds(draw.ns())).sum::<f64>() / 1e5
}

#[test]
fn each_kind_has_its_mean() {
    let (mean_s, sd_s) = (10.0, 2.0);
    for (time, expected) in [
        (Time::Fixed { s: 10.0 }, 10.0),
        (Time::Exponential { mean_s }, 10.0),
        (
            Time::Uniform {
                low_s: 5.0,
                high_s: 15.0,
            },
            10.0,
        ),
        (Time::Normal { mean_s, sd_s }, 10.0),
        (Time::LogNormal { mean_s, sd_s }, 10.0),
        (Time::Gamma { mean_s, sd_s }, 10.0),
        (
            Time::Weibull {
                scale_s: 10.0,
                shape: 1.0,
            },
            10.0,
        ),
        (
            Time::Pareto {
                least_s: 8.0,
                shape: 5.0,
            },
            10.0,
        ),
        (
            Time::Empirical {
                values_s: vec![1.0, 9.0, 20.0],
            },
            10.0,
        ),
    ] {
        // Deviations are at most the mean: six standard errors.
        let mean = self::mean_s(&time);
        assert!((mean - expected).abs() < 0.2, "{time:?} has {mean}");
    }
}

#[test]
fn what_happened_comes_in_turn() {
    let values_s = vec![3.0, 1.0, 2.0];
    let random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut draw = Draw::new(&Time::InTurn { values_s }, random).expect("a good time");
    let four: Vec<u64> = (0..4).map(|_| draw.ns()).collect();
    assert_eq!(four, [3.0, 1.0, 2.0, 3.0].map(ns));
    assert_eq!(
        [4, 4, 3].map(|number| draw.ns_of(number)),
        [1.0, 1.0, 3.0].map(ns)
    );
    assert_eq!(draw.ns(), ns(1.0), "to ask for a number's own takes none");
}

#[test]
fn a_time_that_cannot_be_is_refused_by_its_field() {
    for (time, field) in [
        (Time::Fixed { s: -1.0 }, "s"),
        (Time::Fixed { s: f64::NAN }, "s"),
        (
            Time::Exponential {
                mean_s: f64::INFINITY,
            },
            "mean_s",
        ),
        (
            Time::Uniform {
                low_s: 2.0,
                high_s: 1.0,
            },
            "high_s",
        ),
        (
            Time::Gamma {
                mean_s: 1.0,
                sd_s: 0.0,
            },
            "sd_s",
        ),
        (
            Time::Pareto {
                least_s: 1.0,
                shape: 0.0,
            },
            "shape",
        ),
        (Time::Empirical { values_s: vec![] }, "values_s"),
        (Time::InTurn { values_s: vec![] }, "values_s"),
        (
            Time::Empirical {
                values_s: vec![1.0, -2.0],
            },
            "values_s[1]",
        ),
    ] {
        let error = time.check().expect_err("refused");
        assert_eq!(error.field, field, "{error}");
    }
}
