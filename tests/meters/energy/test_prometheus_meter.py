"""Meter `prometheus`: the real node_exporter, pages as others write them, and bad servers."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from pydantic import ValidationError

from testing.energy.exporterkit import KEPLER, OLD_KEPLER, SCAPHANDRE, exporter, node_exporter
from testing.energy.powercapkit import server
from testing.energy.tlskit import certificate
from tests.meters.energy.prometheuskit import OWN, meter, refused
from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.meters.energy.base import FaultError
from ullage.meters.energy.prometheus import samples
from ullage.runs.readings import Channel


def opened(page: str, **options: object) -> tuple[dict[str, Channel], dict[str, float]]:
    with exporter(page) as served:
        exported = meter(served.url, **options)
        channels = {channel.name: channel for channel in exported.open()}
        values = dict(exported.read())
        assert served.requests == ["/metrics", "/metrics"]
        assert values.keys() == channels.keys()
        return channels, values


@pytest.mark.skipif(shutil.which("prometheus-node-exporter") is None, reason="needs node_exporter")
def test_the_real_node_exporter_over_tls(tmp_path: Path) -> None:
    """With a certificate that it signed itself, of Go's own TLS."""
    file, other_certificate = certificate(tmp_path), certificate(tmp_path, "127.0.0.9")
    (tmp_path / "tree").mkdir()
    with node_exporter(server(tmp_path / "tree").top, certificate=file) as (url, _):
        exported = meter(url, preset="node-exporter", ca_file=file)
        assert len(exported.open()) == 4
        assert exported.read()["memory-0"] == 0.3
        for trusted in ({}, {"ca_file": other_certificate}):
            error = refused(url, preset="node-exporter", **trusted)
            assert error.kind is errors.ENERGY_METER_DENIED
            assert "its certificate is not trusted" in error.message
            assert "`ca_file:`" in error.hint


def test_a_certificate_must_be_trusted_each_time(tmp_path: Path) -> None:
    file, other_certificate = certificate(tmp_path), certificate(tmp_path, "127.0.0.9")
    page = "plug_watts 230.5\n"
    with exporter(page, file) as served:
        exported = meter(served.url, ca_file=file, **OWN)
        exported.open()
        assert exported.read() == {"wall": 230.5}
        assert refused(served.url, **OWN).kind is errors.ENERGY_METER_DENIED
        assert served.requests == ["/metrics", "/metrics"], "who is not trusted is asked nothing"
    with exporter(page, other_certificate) as served:
        error = refused(served.url, ca_file=other_certificate, **OWN)
        assert "its certificate is not trusted: IP address mismatch" in error.message
        error = refused(served.url, ca_file=tmp_path / "none", **OWN)
        assert error.kind is errors.ENERGY_METER_DENIED
        assert f"ca_file {tmp_path}/none: " in error.message
    with exporter(page) as served:
        error = refused(served.url.replace("http:", "https:"), **OWN)
        assert error.kind is errors.ENERGY_METER_ABSENT


def test_certificates_are_of_https(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="`ca_file` is for https:"):
        meter("http://127.0.0.1/metrics", ca_file=tmp_path / "ca.pem", **OWN)
    with pytest.raises(ValidationError, match="`ca_file` is for https:"):
        meter("HTTP://127.0.0.1/metrics", ca_file=tmp_path / "ca.pem", **OWN)


@pytest.mark.skipif(shutil.which("prometheus-node-exporter") is None, reason="needs node_exporter")
def test_the_real_node_exporter_until_it_dies(tmp_path: Path) -> None:
    tree = server(tmp_path)
    with node_exporter(tree.top) as (url, process):
        exported = meter(url, preset="node-exporter")
        channels = {channel.name: channel for channel in exported.open()}
        assert list(channels) == ["package-0", "package-1", "memory-0", "memory-1"]
        assert channels["memory-0"].scope == "memory"
        assert channels["package-1"].source.endswith("intel-rapl:1")
        tree.set("intel-rapl:1", "123456789\n")
        assert exported.read() == {
            "package-0": 1.0,
            "package-1": 123.456789,
            "memory-0": 0.3,
            "memory-1": 0.4,
        }
        (tree.path / "intel-rapl:1").unlink()
        (tree.path / "intel-rapl:1:0").unlink()
        with pytest.raises(FaultError, match="package-1 is no longer on the page") as caught:
            exported.read()
        assert caught.value.code == "gone"
        process.kill()
        process.wait()
        with pytest.raises(FaultError) as caught:
            exported.read()
        assert caught.value.code == "gone"


def test_scaphandre_has_the_host_in_joules() -> None:
    channels, values = opened(SCAPHANDRE, preset="scaphandre")
    assert values == {"host": pytest.approx(93814.000123, abs=1e-9)}
    channel = channels["host"]
    assert (channel.kind, channel.method, channel.scope) == ("energy", "measured", "package")


def test_scaphandre_has_the_power_of_the_host_and_of_guests() -> None:
    channels, values = opened(
        SCAPHANDRE, preset="scaphandre", metric="scaph_host_power_microwatts", accuracy="5%"
    )
    assert values == {"host": pytest.approx(21.875031)}
    assert (channels["host"].kind, channels["host"].accuracy) == ("power", 0.05)
    guests = {"preset": "scaphandre", "metric": "scaph_process_power_consumption_microwatts"}
    channels, values = opened(SCAPHANDRE, **guests, labels={"vmname": "a"})
    assert values == {"process": 5.0}
    channel = channels["process"]
    assert (channel.method, channel.scope) == ("attributed", "guest")
    channels, values = opened(SCAPHANDRE, **guests, labels={"exe": "qemu-system-x86_64"})
    assert sorted(values.values()) == [2.5, 5.0]
    assert "password" not in str(channels), "what others wrote in their labels stays there"


def test_kepler_of_today_and_before() -> None:
    channels, values = opened(KEPLER, preset="kepler")
    assert values == {"package": 1200.5, "memory": 300.25}
    assert {channel.method for channel in channels.values()} == {"measured"}
    channels, values = opened(OLD_KEPLER, preset="kepler")
    assert values == {"package-0": 700.5, "package-1": 1300.0, "memory": 60.0}
    assert "mode=idle" in channels["package-1"].source
    assert channels["package-0"].method == "measured"
    assert channels["memory"].method == "estimated", "its source is a model"


def test_kepler_attributes_to_guests() -> None:
    vm = {"preset": "kepler", "metric": "kepler_vm_cpu_joules_total"}
    channels, values = opened(KEPLER, **vm, labels={"vm_name": "a"})
    assert values == {"vm": 100.0}
    assert (channels["vm"].method, channels["vm"].scope) == ("attributed", "guest")


def test_any_other_with_all_that_must_be_known_of_it() -> None:
    page = 'plug_watts{room="lab"} 285.467\nplug_watts{room="hall"} 12\nplug_watts_max 9\n'
    channels, values = opened(page, **OWN, labels={"room": "lab"}, observer="bmc")
    assert values == {"wall": 285.467}
    assert (channels["wall"].kind, channels["wall"].observer) == ("power", "bmc")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"metric": "plug_watts"},
        {**OWN, "unit": "horsepower"},
        {**OWN, "metric": "plug watts"},
        {"preset": "kepler", "unit": "joules"},
        {"preset": "kepler", "metric": "scaph_host_power_microwatts"},
        {"preset": "nagios"},
    ],
)
def test_a_plan_that_says_too_little_or_too_much(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        meter("http://127.0.0.1:1/metrics", **wrong)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/metrics",
        "http:///metrics",
        "http://user:secret@host/metrics",
        "http://host/a b",
        "http://host/\r\nX: y",
        "metrics",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValidationError):
        meter(url, **OWN)


def test_no_such_metric_and_too_many() -> None:
    with exporter("other 1\n") as served:
        error = refused(served.url, **OWN, labels={"room": "lab"})
        assert error.kind is errors.ENERGY_METER_BAD_ANSWER
        assert "it has no plug_watts with room=lab" in error.message
        served.page = "".join(f'plug_watts{{n="{n}"}} 1\n' for n in range(17))
        assert "17 series match" in refused(served.url).message


BAD_PAGES = {
    "not a number": "plug_watts NaN\n",
    "infinite": "plug_watts +Inf\n",
    "negative": "plug_watts -3\n",
    "no value": "plug_watts\n",
    "two values": "plug_watts many more\n",
    "torn labels": 'plug_watts{room="la\n',
    "torn line": "plug_watts 28",
    "empty": "",
    "twice": "plug_watts 1\nplug_watts 2\n",
    "no text": "plug_watts 1\n\udcff\n",
}


@pytest.mark.parametrize("name", BAD_PAGES)
def test_a_page_that_cannot_be_trusted(name: str) -> None:
    with exporter("plug_watts 100\n") as served:
        exported = meter(served.url, **OWN)
        exported.open()
        served.page = BAD_PAGES[name]
        with pytest.raises(FaultError) as caught:
            exported.read()
        assert caught.value.code == "nonsense", caught.value
        served.page = "plug_watts 101\n"
        assert exported.read() == {"wall": 101.0}, "the next one stands by itself"


def test_a_series_that_goes_away_in_the_middle() -> None:
    with exporter("plug_watts 100\n") as served:
        exported = meter(served.url, **OWN)
        exported.open()
        served.page = "other_watts 100\n"
        with pytest.raises(FaultError, match="no longer on the page") as caught:
            exported.read()
        assert caught.value.code == "gone"


def test_opened_anew_it_has_what_is_there_then() -> None:
    with exporter(KEPLER) as served:
        exported = meter(served.url, preset="kepler")
        assert [channel.name for channel in exported.open()] == ["package", "memory"]
        served.page = KEPLER.replace('zone="dram"', 'zone="uncore"')
        with pytest.raises(FaultError, match="memory is no longer on the page"):
            exported.read()
        exported.close()
        assert [channel.name for channel in exported.open()] == ["package"]
        assert exported.read() == {"package": 1200.5}


def test_an_opening_that_failed_changes_nothing() -> None:
    many = "".join(f'plug_watts{{n="{n}"}} 7\n' for n in range(17))
    with exporter("plug_watts 100\n") as served:
        exported = meter(served.url, **OWN)
        exported.open()
        for page in ("other_watts 5\n", many):
            served.page = page
            with pytest.raises(UllageError):
                exported.open()
            served.page = "plug_watts 100\n"
            assert exported.read() == {"wall": 100.0}


@given(st.text(max_size=300))
def test_any_text_is_samples_or_a_fault(text: str) -> None:
    try:
        exported = samples(f"plug_watts {text}\n", {"plug_watts"})
    except FaultError as error:
        assert error.code == "nonsense"
    else:
        assert all(sample.metric == "plug_watts" for sample in exported)


LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda n: n[:2] != "__"),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    max_size=4,
)


@given(LABELS, st.floats(allow_nan=False, allow_infinity=False))
def test_what_an_exporter_writes_is_what_is_read(labels: dict[str, str], value: float) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("plug_watts", "power", list(labels), registry=registry)
    (gauge.labels(**labels) if labels else gauge).set(value)
    page = generate_latest(registry).decode()
    ((sample, read),) = samples(page, {"plug_watts"}).items()
    assert (dict(sample.labels), read) == (labels, value)
