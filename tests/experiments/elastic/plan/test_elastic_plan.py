"""The plan of an elastic run: what is taken, what is refused and how, what becomes of time."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.common import errors
from ullage.common.errors import UllageError
from ullage.environments.provisioning.node import Site as Host
from ullage.experiments.elastic.plan import schema, units
from ullage.experiments.elastic.plan.schema import Arrivals, ElasticPlan
from ullage.experiments.elastic.plan.units import Scaled
from ullage.experiments.elastic.run.nodes import StreamingNodes
from ullage.experiments.elastic.run.repetition import (
    RunSetup,
    arrivals_settings,
    front_settings,
    seed_of,
)
from ullage.host.network.bridge import Network
from ullage.plan import schema as ordinary
from ullage.workloads.web.clip import Clip

GOOD = """\
name: film
room: 4
environments:
  lxc: {provider: lxc}
  vm: {provider: qemu, boot_delay: 40s, policy: {name: spare, nodes: 1}, nodes: {max: 3}}
arrivals: {kind: poisson, rate: 0.01, viewers: 20}
time_scale: 60
"""


def refused(text: str) -> UllageError:
    with pytest.raises(UllageError) as caught:
        schema.resolve(*schema.loads(text))
    return caught.value


def test_what_is_left_out_has_defaults_and_an_environment_may_have_its_own() -> None:
    plan, document = schema.loads(GOOD)
    lxc, vm = schema.resolve(plan, document)
    scaled = Scaled(plan)
    assert (plan.policy.name, plan.patience, plan.baseline) == ("elastic-movie", 60, None)
    assert (lxc.boot_delay, vm.boot_delay) == (0, 40)
    assert scaled.machine(lxc)["max_nodes"] == units.MOST_NODES
    assert scaled.machine(vm)["max_nodes"] == 3
    assert vm.policy.model_dump() == {"name": "spare", "nodes": 1}
    assert lxc.policy.name == "elastic-movie"
    settings = front_settings(plan, vm, "127.0.0.1:0", Path("log"))
    assert settings["config"]["room"] == 4
    assert settings["policy"]["nodes"] == 1


SLOW = "lxc: {provider: lxc, allocation_time: {mean: 120s, deviation: 6s}}"


def test_an_allocation_may_be_made_to_take_a_time() -> None:
    text = GOOD.replace("lxc: {provider: lxc}", SLOW)
    assert text != GOOD
    plan, document = schema.loads(f"{text}boot_delay: 9s\n")
    lxc, vm = schema.resolve(plan, document)
    scaled = Scaled(plan)
    assert scaled.allocation_s(lxc) == (2.0, 0.1)
    assert (scaled.held_s(lxc), lxc.boot_delay) == (2.0, 0), "held in one way, its own"
    assert scaled.allocation_s(vm) is None
    assert scaled.held_s(vm) == scaled.boot_delay_s(vm)
    both = refused(text.replace("provider: lxc, alloc", "provider: lxc, boot_delay: 1s, alloc"))
    assert "not both" in both.message


@given(scale=st.integers(1, 3600), rate=st.integers(1, 1000), patience=st.integers(0, 10_000))
def test_time_is_divided_and_bitrates_are_not(scale: int, rate: int, patience: int) -> None:
    text = GOOD.replace("time_scale: 60", f"time_scale: {scale}\npatience: {patience}")
    plan, document = schema.loads(text.replace("rate: 0.01", f"rate: {rate}"))
    scaled = Scaled(plan)
    assert scaled.length_s * scale == pytest.approx(plan.video.length)
    assert scaled.patience_s * scale == pytest.approx(patience)
    assert scaled.film_bytes * 8 / scaled.length_s == pytest.approx(plan.video.bitrate, rel=0.01)
    settings = arrivals_settings(plan, 1, Path("unused"))
    assert settings["rate_hz"] == pytest.approx(rate * scale)
    assert settings["count"] == 20
    _, vm = schema.resolve(plan, document)
    assert scaled.boot_delay_s(vm) * scale == pytest.approx(40)
    assert scaled.repetition_s > scaled.arriving_s + scaled.patience_s + scaled.length_s


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("room: 4", "room: 0", "greater than or equal to 1"),
        ("room: 4", "", "this field is needed"),
        ("viewers: 20", "viewers: 20, lasting: 1h", "either `viewers` or `lasting`"),
        (", viewers: 20", "", "either `viewers` or `lasting`"),
        ("rate: 0.01, ", "", "`kind: poisson` needs `rate`"),
        ("rate: 0.01", "rate: 0.01, peak: 3", "`kind: poisson` has no `peak`"),
        ("kind: poisson", "kind: flash-crowd", "`kind: flash-crowd` needs `peak`"),
        ("nodes: {max: 3}", "nodes: {max: 3, min: 4}", "min (4) is larger than max (3)"),
        ("time_scale: 60", "time_scale: 0.5", "greater than or equal to 1"),
        ("time_scale: 60", "patience: -1", "greater than or equal to 0"),
        ("time_scale: 60", "confidence: 2", "less than 1"),
        ("time_scale: 60", "policy: {name: predictor, alpha: .nan}", "`alpha` is nan"),
        ("time_scale: 60", "policy: {name: predictor, alpha: }", "`alpha` is None"),
    ],
)
def test_a_bad_field_is_named_with_its_line(old: str, new: str, reason: str) -> None:
    error = refused(GOOD.replace(old, new))
    assert error.kind is errors.PLAN_BAD_FIELD
    assert reason in error.message
    assert "plan.yaml:" in error.message


def test_what_is_not_there_is_refused_by_name() -> None:
    error = refused(GOOD + "baseline: kvm\n")
    assert error.kind is errors.PLAN_NO_BASELINE
    error = refused(GOOD.replace("room: 4", "rooms: 4"))
    assert (error.kind, error.hint) == (errors.PLAN_UNKNOWN_FIELD, "did you mean room?")
    error = refused(GOOD.replace("provider: qemu", "provider: qemu, nik: e1000"))
    assert error.kind is errors.PLAN_UNKNOWN_FIELD
    assert "boot_delay" in error.message
    error = refused(GOOD.replace("name: film", "name: ../film"))
    assert error.kind is errors.PLAN_BAD_NAME
    assert refused("- a list\n").kind is errors.PLAN_BAD_FIELD


def test_no_machine_of_it_swaps() -> None:
    """Nobody makes the area: it would stand among the treatments, and be none."""
    error = refused(GOOD.replace("provider: lxc", "provider: lxc, swap: {on: zram, size: 64MiB}"))
    assert error.kind is errors.PLAN_BAD_FIELD
    assert "lxc.swap: found 64MiB on zram; machines of an elastic run" in error.message


def test_only_what_can_be_had_once_more_is_an_environment() -> None:
    error = refused(GOOD.replace("provider: lxc", "provider: native"))
    assert error.kind is errors.PLAN_UNKNOWN_PROVIDER
    assert "there is no second one" in error.hint
    error = refused(GOOD.replace("provider: lxc", "provider: lcx"))
    assert error.hint == "did you mean lxc?"
    error = refused(GOOD + "image: host\n")
    assert "cannot run from the host's own userland" in error.message


@pytest.mark.parametrize("name", ["a--b", "a-b-"])
def test_two_that_would_have_one_folder_are_refused(name: str) -> None:
    names = f"  a-b: {{provider: lxc}}\n  {name}: {{provider: lxc}}\n"
    fault = refused(GOOD.replace("  lxc: {provider: lxc}\n", names))
    assert fault.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert f"'a-b' and '{name}' would have one folder, 'a-b'" in fault.message


def test_no_two_nodes_of_a_run_have_one_name() -> None:
    names = ("a-1", "a", "a-1-0", "a-0r0", "a-0r0-1", "a_1", "A", "x" * 30 + "a", "x" * 30 + "b")
    text = "".join(f"  {name}: {{provider: lxc}}\n" for name in names)
    environments = schema.resolve(*schema.loads(GOOD.replace("  lxc: {provider: lxc}\n", text)))
    makers = partial(StreamingNodes, cast(Host, None), 1.0)
    setting = RunSetup(
        plan=cast(ElasticPlan, None),
        folder=Path(),
        tag="t",
        seed=1,
        network=cast(Network, None),
        makers={record.key: makers for record in environments},
        clip=cast(Clip, SimpleNamespace(file=Path("film"))),
    )
    instances = [
        setting.maker(environment, repetition).name(node, attempt)
        for environment in environments
        for repetition in range(12)
        for node in range(12)
        for attempt in (1, 2, 11)
    ]
    assert len(set(instances)) == len(instances)


def test_patience_may_be_none() -> None:
    plan, _ = schema.loads(GOOD + "patience: 0\n")
    assert Scaled(plan).patience_s == 0


def test_a_trace_is_divided_in_order(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text("# seconds\n120\n60\n\n0\n", encoding="ascii")
    text = GOOD.replace(
        "{kind: poisson, rate: 0.01, viewers: 20}", f"{{kind: trace, file: {file}}}"
    )
    plan, _ = schema.loads(text)
    settings = arrivals_settings(plan, 1, tmp_path / "real")
    assert settings == {"kind": "trace", "path": str(tmp_path / "real")}
    assert [float(x) for x in (tmp_path / "real").read_text().split()] == [0, 1, 2]
    assert Scaled(plan).arriving_s == 2
    for bad in ("soon\n", "-1\n", "inf\n", "\n"):
        file.write_text(bad, encoding="ascii")
        with pytest.raises(ValueError, match=r"line 1|no instant"):
            units.trace_times(plan.arrivals)


def test_a_flash_crowd_has_its_own_fields() -> None:
    crowd = "kind: flash-crowd, rate: 0.01, peak: 1, at: 10m, decay: 2m, lasting: 1h"
    plan, _ = schema.loads(GOOD.replace("kind: poisson, rate: 0.01, viewers: 20", crowd))
    settings = arrivals_settings(plan, 7, Path("unused"))
    assert settings["seed"] == 7
    values = [settings[name] for name in ("rate_hz", "peak_hz", "at_s", "decay_s", "duration_s")]
    assert values == pytest.approx([0.6, 60, 10, 2, 60])


def test_what_a_field_without_a_word_of_its_own_is_described_by() -> None:
    assert "docs/guide/elastic.md" in refused(GOOD.split("environments:", maxsplit=1)[0]).hint
    error = refused("- 1\n")
    assert "found list; a plan has fields, `field: value`" in error.message


def test_who_says_only_the_cpus_of_a_node_has_its_usual_memory() -> None:
    plan, document = schema.loads(GOOD + "resources: {cpus: 2}\n")
    assert schema.resolve(plan, document)[0].resources.memory == 256 << 20


def test_attempts_have_their_own_limit_where_only_their_number_is_said() -> None:
    plan, _ = schema.loads(GOOD + "budgets: {allocate: {tries: 5}, release: {tries: 5}}\n")
    budgets = plan.budgets
    assert (budgets.allocate.tries, budgets.allocate.limit) == (5, 120)
    assert (budgets.release.tries, budgets.release.limit) == (5, 60)


def together(text: str) -> list[str]:
    """What is said of viewers who watch at the same time."""
    plan, document = schema.loads(text)
    return [s for s in units.said_before(plan, schema.resolve(plan, document)) if "together" in s]


@pytest.mark.parametrize("number", ["viewers: 20", "lasting: 1s"])
def test_no_more_are_said_to_come_together_than_come(number: str) -> None:
    text = GOOD.replace("rate: 0.01, viewers: 20", f"rate: 20, {number}")
    assert not together(text + "video: {length: 1000000h}\n")
    assert together(text + "video: {length: 1000000h, bitrate: 1000000000}\n")


def test_those_of_a_trace_who_watch_together_are_counted(tmp_path: Path) -> None:
    """Eleven come in a minute, at 1 Gbit/s each: with a film of a minute the first has gone."""
    file = tmp_path / "trace"
    file.write_text("".join(f"{1000 + 6 * n}\n" for n in range(11)), encoding="ascii")
    text = GOOD.replace("kind: poisson, rate: 0.01, viewers: 20", f"kind: trace, file: {file}")
    assert not together(text + "video: {length: 60s, bitrate: 1000000000}\n")
    (doubt,) = together(text + "video: {length: 61s, bitrate: 1000000000}\n")
    assert "about 11 viewers watch together, 11 Gbit/s" in doubt
    file.unlink()
    assert not together(text + "video: {length: 61s, bitrate: 1000000000}\n"), "it is a lack"


def test_nodes_that_nobody_asks_for_need_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "memory_bytes", lambda: 8 << 30)

    def doubted(text: str) -> bool:
        plan, document = schema.loads(text)
        doubts = units.said_before(plan, schema.resolve(plan, document)[:1])
        return any("250 nodes may use" in doubt for doubt in doubts)

    assert not doubted(GOOD), "of 20 viewers each has one node at most"
    assert doubted(GOOD.replace("viewers: 20", "viewers: 400"))
    assert doubted(GOOD.replace("viewers: 20", "lasting: 1h"))
    assert doubted(GOOD + "policy: {name: spare, nodes: 99}\n")


def test_a_trace_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ValueError, match="no regular file"):
            units.trace_times(Arrivals(kind="trace", file=place))


def test_too_much_is_said_before() -> None:
    plan, document = schema.loads(GOOD)
    assert not list(units.said_before(plan, schema.resolve(plan, document)[1:]))
    text = GOOD.replace("room: 4", "room: 20").replace("rate: 0.01", "rate: 1")
    plan, document = schema.loads(text + "video: {bitrate: 1000000000, length: 1m, buffer: 30}\n")
    text_of_doubts = " ".join(units.said_before(plan, schema.resolve(plan, document)))
    for words in ("more than the 10 Gbit/s that Linux states", "a full node streams", "late"):
        assert words in text_of_doubts
    assert "×60" in (units.limits_of_scale(plan) or "")
    assert units.limits_of_scale(plan.model_copy(update={"time_scale": 1.0})) is None


def test_arrivals_are_the_same_for_all_environments_and_differ_by_repetition() -> None:
    seeds = [seed_of(11, number) for number in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 1 << 53 for seed in seeds)


DOCS = sorted((Path(__file__).parents[4] / "docs/plans").glob("elastic-*.yaml"))


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.stem)
def test_the_plans_of_the_docs_are_good(file: Path) -> None:
    plan, document = schema.load(file)
    environments = schema.resolve(plan, document)
    assert plan.name == file.stem
    assert not list(units.said_before(plan, environments))


def test_prices_are_in_one_currency() -> None:
    price = "price: {{per_hour: 0.02, currency: {}}}, "
    text = GOOD.replace("{provider: lxc", "{" + price.format("EUR") + "provider: lxc")
    plan, document = schema.loads(text)
    lxc, vm = schema.resolve(plan, document)
    assert (lxc.price and lxc.price.currency, vm.price) == ("EUR", None)
    error = refused(text.replace("{provider: qemu", "{" + price.format("USD") + "provider: qemu"))
    assert error.kind is errors.PLAN_BAD_FIELD
    assert "plan.yaml:5: environments.vm.price.currency: found USD" in error.message


IN_A_CLOUD = "flavor: small, boot_image: debian"
GENERATORS = GOOD + "generators: {number: 3, provider: oci, resources: {cpus: 0.5}}\n"


def test_viewers_may_come_from_machines_of_their_own() -> None:
    plan, document = schema.loads(GENERATORS)
    machines = schema.generators(plan, document)
    assert machines is not None
    assert (machines.number, machines.provider.name, machines.resources.cpus) == (3, "oci", 0.5)
    lxc, _ = schema.resolve(plan, document)
    # They have addresses on the same bridge.
    assert Scaled(plan).machine(lxc)["max_nodes"] == units.MOST_NODES - 3
    assert schema.generators(*schema.loads(GOOD)) is None
    spare = GENERATORS + "resources: {memory: 1TiB}\npolicy: {name: spare}\n"
    plan, document = schema.loads(spare)
    (doubt, *_) = units.said_before(plan, schema.resolve(plan, document))
    assert "lxc: 247 nodes and 3 generators may use" in doubt


@pytest.mark.parametrize(
    ("old", "new", "kind", "reason"),
    [
        ("provider: oci", "provider: ocy", errors.PLAN_UNKNOWN_PROVIDER, "oci"),
        ("number: 3", "number: 0", errors.PLAN_BAD_FIELD, "generators.number"),
        ("number: 3", "numbre: 3", errors.PLAN_UNKNOWN_FIELD, "number"),
        ("oci,", "lxc,", errors.PLAN_BAD_FIELD, "generators: lxc cannot run"),
        ("oci,", f"ec2, {IN_A_CLOUD},", errors.PLAN_BAD_FIELD, "no cloud is on"),
        (
            "lxc: {provider: lxc}",
            f"lxc: {{provider: openstack, {IN_A_CLOUD}}}",
            errors.PLAN_BAD_FIELD,
            "leave `generators` out",
        ),
    ],
)
def test_machines_that_cannot_be_are_refused(
    old: str, new: str, kind: errors.ErrorKind, reason: str
) -> None:
    text = GENERATORS.replace(old, new)
    if new == "lxc,":
        text = text.replace("lxc: {provider: lxc}", "lxc: {provider: oci}")
        text = text.replace("vm: {provider: qemu,", "vm: {provider: oci,") + "image: host\n"
    with pytest.raises(UllageError) as caught:
        schema.generators(*schema.loads(text))
    assert caught.value.kind is kind
    assert reason in f"{caught.value.message} {caught.value.hint}"


def test_plans_of_the_two_kinds_are_told_apart() -> None:
    """By one error each, that names the right command."""
    with pytest.raises(UllageError) as caught:
        ordinary.loads(GOOD, "film.yaml")
    assert caught.value.kind is errors.PLAN_IS_ELASTIC
    assert caught.value.message.startswith("film.yaml:6: the plan of an elastic run")
    assert "`ullage elastic run film.yaml`" in caught.value.hint
    text = "name: cpu\nbaseline: a\nenvironments: {a: {provider: native}}\n"
    with pytest.raises(UllageError) as caught:
        schema.loads(text + "workloads: [{name: sysbench-cpu}]\n", "cpu.yaml")
    assert caught.value.kind is errors.PLAN_NOT_ELASTIC
    assert caught.value.message.startswith("cpu.yaml:4: no plan of an elastic run")
    assert "`ullage run cpu.yaml`" in caught.value.hint


def test_what_is_neither_or_both_is_told_by_its_fields() -> None:
    """A field too many or too few is that, and no other kind of plan."""
    assert refused(GOOD + "workloads: []\n").kind is errors.PLAN_UNKNOWN_FIELD
    assert refused("name: film\n").kind is errors.PLAN_BAD_FIELD


def test_nodes_and_generators_use_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes of 1 GiB each and two generators of 512 MiB each: 4 GiB."""
    text = GOOD + "resources: {memory: 1GiB}\n"
    with_generators = text + "generators: {number: 2, resources: {memory: 512MiB}}\n"

    def doubts(text: str, has: int) -> list[str]:
        monkeypatch.setattr(units, "memory_bytes", lambda: has)
        plan, document = schema.loads(text)
        return list(units.said_before(plan, schema.resolve(plan, document)[1:]))

    assert doubts(text, 3 << 30) == doubts(with_generators, 4 << 30) == []
    (doubt,) = doubts(with_generators, (4 << 30) - 1)
    assert "vm: 3 nodes and 2 generators may use 4GiB of memory" in doubt
    (doubt,) = doubts(text, (3 << 30) - 1)
    assert "vm: 3 nodes may use 3GiB of memory" in doubt


CROWD = "kind: flash-crowd, rate: 0.01, peak: {peak}, at: 10s, decay: {decay}"


@pytest.mark.parametrize(
    ("arrivals", "most", "more"),
    [
        ("kind: poisson, rate: 20", "50000s", "50001s"),
        ("kind: uniform, rate: 20", "50000s", "50001s"),
        # all of a crowd that has gone home: (1000.01 − 0.01) × 999.9 and 0.01 in each second
        (CROWD.format(peak=1000.01, decay="999.9s"), "10000s", "20000s"),
    ],
)
def test_lasting_is_a_number_of_viewers_too(arrivals: str, most: str, more: str) -> None:
    def written(lasting: str) -> str:
        return GOOD.replace(
            "kind: poisson, rate: 0.01, viewers: 20", f"{arrivals}, lasting: {lasting}"
        )

    assert written(most) != GOOD
    schema.loads(written(most))
    line = next(n for n, text in enumerate(GOOD.splitlines(), 1) if "arrivals" in text)
    for longer in (more, "100000000h"):
        error = refused(written(longer))
        assert error.kind is errors.PLAN_BAD_FIELD
        assert error.message.startswith(f"plan.yaml:{line}: arrivals.lasting: found ")
        assert "at most 1,000,000 come in a repetition" in error.message
