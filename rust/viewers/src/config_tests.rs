use super::*;

const GOOD: &str = r#"{"nodes": ["http://127.0.0.1:80/clip"],
    "arrivals": {"kind": "poisson", "rate_hz": 5, "count": 10},
    "video": {"bytes": 1000, "bitrate_bps": 8000, "chunk_bytes": 100}}"#;

#[test]
fn what_is_left_out_has_defaults() {
    let config = Config::parse(GOOD).expect("good");
    assert!(config.limits.run_s.is_none() && config.shards.is_none());
    assert_eq!(config.video.read, Read::Ranges);
    assert!(config.at_once() <= 10.0);
    let again = serde_json::to_string(&config).expect("JSON");
    Config::parse(&again).expect("what was written is read again");
}

#[test]
fn every_wrong_field_is_named() {
    for (from, to, named) in [
        ("\"bytes\": 1000", "\"bytes\": 0", "video.bytes"),
        ("8000", "7", "video.bitrate_bps"),
        ("8000", "8000, \"sent_bps\": 7999", "video.sent_bps"),
        (
            "\"chunk_bytes\": 100",
            "\"chunk_bytes\": 0",
            "video.chunk_bytes",
        ),
        ("\"rate_hz\": 5", "\"rate_hz\": 0", "arrivals.rate_hz"),
        ("\"rate_hz\": 5, \"count\": 10", "\"rate_hz\": 5", "count"),
        ("poisson", "poison", "poison"),
        ("\"video\"", "\"patience_s\": -1, \"video\"", "patience_s"),
        (
            "\"video\"",
            "\"share\": {\"index\": 1, \"of\": 1}, \"video\"",
            "share",
        ),
        (
            "\"video\"",
            "\"lateness_limit_ms\": 0, \"video\"",
            "lateness_limit_ms",
        ),
        ("\"video\"", "\"shards\": 0, \"video\"", "shards"),
        (
            "\"video\"",
            "\"front\": \"http://127.0.0.1:1\", \"video\"",
            "front",
        ),
        ("\"nodes\": [\"http://127.0.0.1:80/clip\"],", "", "front"),
        ("http://127.0.0.1:80/clip", "ftp://127.0.0.1:80/clip", "ftp"),
        ("\"video\"", "\"colour\": 1, \"video\"", "colour"),
    ] {
        assert!(GOOD.contains(from));
        let why = Config::parse(&GOOD.replace(from, to)).expect_err(to);
        assert!(why.contains(named), "{to}: {why}");
    }
}
