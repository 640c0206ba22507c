"""Plans: every fault names the line, the field, what was found and what is allowed."""

import pytest

from ullage.common import errors
from ullage.common.errors import ErrorKind, UllageError
from ullage.plan import matrix, schema
from ullage.plan.template import TEMPLATE

GOOD = """\
name: demo
baseline: native
environments:
  native: {provider: native}
  vm:
    provider: qemu
    vary: {nic: [virtio, e1000], disk.format: [raw, qcow2]}
workloads:
  - {name: sysbench-cpu, vary: {threads: [1, 2]}}
  - name: iperf3
    streams: 10
blocks: {min: 2, max: 9, until: {half_width: 2%}, budget: 10m}
"""


def resolved(text: str) -> matrix.Matrix:
    return matrix.resolve(*schema.loads(text, "p.yaml"))


def test_a_good_plan_is_multiplied_out() -> None:
    planned = resolved(GOOD)
    assert [e.key for e in planned.environments] == [
        "native",
        "vm[nic=virtio,disk.format=raw]",
        "vm[nic=virtio,disk.format=qcow2]",
        "vm[nic=e1000,disk.format=raw]",
        "vm[nic=e1000,disk.format=qcow2]",
        "native~again",
    ]
    assert [case.key for case in planned.cases] == [
        "sysbench-cpu[threads=1]",
        "sysbench-cpu[threads=2]",
        "iperf3",
    ]
    assert planned.environments[-1].again_of == "native"
    assert planned.cells == 18


def test_units_are_si_inside() -> None:
    checked, _ = schema.loads(GOOD)
    assert checked.blocks.budget == 600
    assert checked.blocks.until is not None
    assert checked.blocks.until.half_width == pytest.approx(0.02)
    assert checked.resources.memory == 1 << 30


RARE = GOOD.replace("max: 9, ", "")


@pytest.mark.parametrize(("share", "least"), [("2%", 149), ("0.05", 59), ("50%", 5)])
def test_a_rare_event_plans_the_blocks(share: str, least: int) -> None:
    checked, _ = schema.loads(f"{RARE}rare: {share}\n")
    assert checked.blocks.min == least
    assert checked.blocks.max == max(40, least)
    assert 1 - (1 - (checked.rare or 0)) ** least >= 0.95


def test_a_rare_event_never_plans_fewer_blocks() -> None:
    checked, _ = schema.loads(f"{RARE.replace('min: 2', 'min: 30')}rare: 50%\n")
    assert (checked.blocks.min, checked.blocks.max) == (30, 40)


def test_a_rare_event_in_whole_generations() -> None:
    checked, _ = schema.loads(
        f"{RARE.replace('min: 2', 'min: 4')}rare: 5%\nrepeat: {{instances: 4}}\n"
    )
    assert checked.blocks.min == 60


@pytest.mark.parametrize(
    ("plan", "share", "allowed", "hint"),
    [
        (
            GOOD,
            "2%",
            "it takes 149 blocks to show, and at most 9 may run",
            "9 blocks show what befalls 28% or more; or write `blocks: {max: 149}`",
        ),
        (
            RARE,
            "0.001%",
            "it takes 299,572 blocks to show, and at most 100,000 may run",
            "100,000 blocks show what befalls 0.003% or more",
        ),
    ],
)
def test_an_event_too_rare_for_the_plan(plan: str, share: str, allowed: str, hint: str) -> None:
    with pytest.raises(UllageError) as caught:
        schema.loads(f"{plan}rare: {share}\n", "p.yaml")
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert caught.value.message == f"p.yaml:13: rare: found {share}; {allowed}"
    assert caught.value.hint == hint


@pytest.mark.parametrize("share", ["0", "100%", "-1%", "often"])
def test_a_share_that_is_none(share: str) -> None:
    with pytest.raises(UllageError) as caught:
        schema.loads(f"{RARE}rare: {share}\n", "p.yaml")
    assert caught.value.kind is errors.PLAN_BAD_FIELD


@pytest.mark.parametrize("price", ["-0.1", "0", ".inf", ".nan", "1e12"])
def test_a_price_is_paid_and_finite(price: str) -> None:
    """Negative and infinite bills are refused where they are written."""
    priced = GOOD.replace(
        "{provider: native}", f"{{provider: native, price: {{per_hour: {price}, currency: EUR}}}}"
    )
    with pytest.raises(UllageError) as caught:
        schema.loads(priced, "p.yaml")
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert "environments.native.price.per_hour" in caught.value.message


def test_a_second_environment_can_run_twice() -> None:
    planned = resolved(GOOD + "again: ['vm[nic=e1000,disk.format=raw]']\n")
    assert planned.environments[-1].key == "vm[nic=e1000,disk.format=raw]~again"


def test_the_template_is_a_good_plan() -> None:
    planned = resolved(TEMPLATE.read_text())
    assert {e.provider.name for e in planned.environments} == {"native", "oci", "lxc", "qemu"}


@pytest.mark.parametrize(("rule", "races"), [("half_width: 2%", False), ("verdicts: all", True)])
def test_what_ends_a_run_stands_in_its_folder_as_one_rule(rule: str, races: bool) -> None:
    """As in folders from before there were two, so that they can be taken up."""
    blocks = schema.loads(GOOD.replace("until: {half_width: 2%}", f"until: {{{rule}}}"))[0].blocks
    name, _, value = rule.partition(": ")
    assert blocks.races is races
    assert blocks.model_dump()["until"] == {name: 0.02 if value == "2%" else value}


CASES: list[tuple[str, str, ErrorKind, str, str]] = [
    ("name: demo", "nam: demo", errors.PLAN_UNKNOWN_FIELD, ":1: unknown field nam", "name?"),
    ("min: 2", "min: two", errors.PLAN_BAD_FIELD, ":12: blocks.min: found 'two'", ""),
    ("min: 2", "min: 20", errors.PLAN_BAD_FIELD, ":12: blocks", "min (20) is larger than max (9)"),
    (
        "until: {half_width: 2%}",
        "until: {}",
        errors.PLAN_BAD_FIELD,
        ":12: blocks.until",
        "one rule ends",
    ),
    (
        "until: {half_width: 2%}",
        "until: {half_width: 2%, verdicts: all}",
        errors.PLAN_BAD_FIELD,
        ":12: blocks.until",
        "one rule ends a run",
    ),
    ("half_width: 2%", "verdicts: 3", errors.PLAN_BAD_FIELD, ":12:", "'all'"),
    ("streams: 10", "streems: 10", errors.PLAN_UNKNOWN_FIELD, ":11: unknown field", "streams?"),
    ("streams: 10", "streams: many", errors.PLAN_BAD_FIELD, ":11: workloads.1.streams", "'many'"),
    ("name: iperf3", "name: iperf4", errors.PLAN_UNKNOWN_WORKLOAD, ":10:", "iperf3?"),
    ("provider: qemu", "provider: qmu", errors.PLAN_UNKNOWN_PROVIDER, ":6:", "qemu?"),
    ("baseline: native", "baseline: bare", errors.PLAN_NO_BASELINE, ":2: baseline 'bare'", "vm"),
    ("baseline: native", "baseline: vm", errors.PLAN_NO_BASELINE, ":2:", "vm[nic=e1000"),
    ("nic: [virtio, e1000]", "nik: [a]", errors.PLAN_IMPOSSIBLE_MATRIX, ":7: cannot vary", "nic"),
    ("nic: [virtio, e1000]", "nic: []", errors.PLAN_IMPOSSIBLE_MATRIX, ":7: nic: no values", ""),
    ("nic: [virtio, e1000]", "nic: [rtl]", errors.PLAN_BAD_FIELD, ":7: environments.vm.nic", ""),
    ("nic: [virtio, e1000]", "nic: [e1000, e1000]", errors.PLAN_IMPOSSIBLE_MATRIX, ":3:", "twice"),
    ("name: demo", "name: ../../etc", errors.PLAN_BAD_NAME, ":1: '../../etc'", "1 to 40 letters"),
    ("  vm:", "  ../vm:", errors.PLAN_BAD_NAME, ":5: '../vm'", ""),
    ("  vm:", "  a..b:", errors.PLAN_BAD_NAME, ":5: 'a..b'", ""),
    ("  vm:", "  vm~again:", errors.PLAN_BAD_NAME, ":5: 'vm~again'", ""),
    ("name: iperf3", "name: sysbench-cpu\n    as: ../x", errors.PLAN_BAD_NAME, ":11:", ""),
    ("    streams: 10", "    mode: 1", errors.PLAN_UNKNOWN_FIELD, ":11:", ""),
    ("provider: native", "x: 1", errors.PLAN_BAD_FIELD, ":4: environments.native.provider", ""),
    ("budget: 10m", "budget: soon", errors.PLAN_BAD_FIELD, ":12: blocks.budget", "10m"),
    ("name: demo", "name: demo\nresources: 3", errors.PLAN_BAD_FIELD, ":2: resources", "a mapping"),
    ("name: demo", "name: demo\nsnapshot: ftp://x/y", errors.PLAN_BAD_FIELD, ":2: snapshot", ""),
    ("name: demo", "name: demo\nsnapshot: 'http://x y'", errors.PLAN_BAD_FIELD, ":2:", ""),
    ("name: demo", "name: demo\nrepeat: 3", errors.PLAN_BAD_FIELD, ":2: repeat:", ""),
    ("name: demo", "name: demo\nrepeat: {boots: 3}", errors.PLAN_UNKNOWN_FIELD, ":2:", "instances"),
    ("name: demo", "name: demo\nrepeat: {instances: 0}", errors.PLAN_BAD_FIELD, ":2:", "anew"),
    ("name: demo", "name: demo\nrepeat: {instances: -1}", errors.PLAN_BAD_FIELD, ":2:", "anew"),
    ("name: demo", "name: demo\nrepeat: {instances: true}", errors.PLAN_BAD_FIELD, ":2:", "True"),
    ("name: demo", "name: demo\nrepeat: {instances: 1.5}", errors.PLAN_BAD_FIELD, ":2:", "1.5"),
    ("name: demo", "name: demo\nrepeat: {instances: [2]}", errors.PLAN_BAD_FIELD, ":2:", "[2]"),
    ("name: demo", "name: demo\nrepeat: {iterations: 0}", errors.PLAN_BAD_FIELD, ":2:", "in a row"),
    ("name: demo", "name: demo\nrepeat: {iterations: 1001}", errors.PLAN_BAD_FIELD, ":2:", "1000"),
    ("name: demo", "name: demo\nrepeat: {iterations: ten}", errors.PLAN_BAD_FIELD, ":2:", "'ten'"),
    (
        "name: demo",
        "name: demo\nrepeat: {instances: 4}",
        errors.PLAN_BAD_FIELD,
        ":13: blocks.min: found 2; all instances are made anew after 4 blocks",
        "write `blocks: {min: 4, max: 12}`",
    ),
    (
        "name: demo",
        "name: demo\nrepeat: {instances: 2}",
        errors.PLAN_BAD_FIELD,
        ":13: blocks.max: found 9",
        "write `blocks: {min: 2, max: 10}`",
    ),
    ("name: demo", "name: demo\ndesign: trio", errors.PLAN_BAD_FIELD, ":2: design", "'trio'"),
    ("name: demo", "name: demo\ndesign: [duet]", errors.PLAN_BAD_FIELD, ":2: design", "'duet'"),
    ("name: demo", "name: demo\ncorrection: bonferroni", errors.PLAN_BAD_FIELD, ":2:", "'holm'"),
    (
        "name: demo",
        "name: demo\ndesign: duet",
        errors.PLAN_IMPOSSIBLE_MATRIX,
        ":11: iperf3 has a second endpoint",
        "a plan of its own",
    ),
    ("name: demo", "name: demo\nimage: host", errors.PLAN_IMPOSSIBLE_MATRIX, "userland", ""),
]


@pytest.mark.parametrize(("old", "new", "kind", "message", "more"), CASES)
def test_faults(old: str, new: str, kind: ErrorKind, message: str, more: str) -> None:
    assert old in GOOD
    with pytest.raises(UllageError) as caught:
        resolved(GOOD.replace(old, new, 1))
    assert caught.value.kind is kind
    assert message in f"{caught.value.message}", caught.value.message
    assert more in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.kind.exit_code == 2


@pytest.mark.parametrize("text", ["", "[]", "plan", "3"])
def test_no_plan_at_all(text: str) -> None:
    with pytest.raises(UllageError) as caught:
        schema.loads(text)
    assert caught.value.kind is errors.PLAN_BAD_FIELD


def test_a_matrix_that_explodes_is_refused_before_it_is_built() -> None:
    values = ", ".join(str(i) for i in range(1, 2001))
    text = GOOD.replace("threads: [1, 2]", f"threads: [{values}], time_s: [{values}]")
    with pytest.raises(UllageError) as caught:
        resolved(text)
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert "4000000" in caught.value.message


def test_two_workloads_with_one_directory_are_refused() -> None:
    twin = "  - {name: sysbench-cpu, as: sysbench-cpu-threads-1}\n"
    text = GOOD.replace("workloads:\n", f"workloads:\n{twin}", 1)
    with pytest.raises(UllageError) as caught:
        resolved(text)
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert "would have one folder" in caught.value.message


def test_a_second_copy_of_nothing_names_the_field() -> None:
    with pytest.raises(UllageError) as caught:
        resolved(GOOD + "again: [wm]\n")
    assert caught.value.kind is errors.PLAN_BAD_FIELD
    assert "again.0" in caught.value.message
    assert "native, vm" in caught.value.message


DUET = """\
name: demo
baseline: native
design: duet
environments:
  native: {provider: native}
  vm: {provider: qemu}
workloads:
  - {name: sysbench-cpu, vary: {threads: [1, 2]}}
"""


def test_a_duet_runs_every_other_environment_beside_the_baseline() -> None:
    planned = resolved(DUET)
    assert planned.cells == 8
    turns = planned.turns(seed=1, block=0)
    assert sorted((a.environment, b.environment) for a, b in turns) == sorted(
        2 * [("vm", "native"), ("native~again", "native")]
    )
    solo = resolved(DUET.replace("duet", "solo"))
    assert solo.cells == 6 and {len(turn) for turn in solo.turns(seed=1, block=0)} == {1}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("provider: qemu", "provider: qemu, instances: 2", ":6: vm: a duet has one instance"),
        (
            "provider: qemu",
            "provider: qemu, resources: {cpus: 2, memory: 1GiB}",
            ":6: vm: the two sides of a duet have as many CPUs",
        ),
        ("design: duet", "design: duet\nagain: [vm]", ":4: a duet pairs every environment with"),
        (
            "  - {name: sysbench-cpu,",
            "  - {name: iperf3, as: net, peer: second}\n  - {name: sysbench-cpu,",
            ":8: net has a second endpoint",
        ),
        (
            "  - {name: sysbench-cpu,",
            "  - {name: iperf3, vary: {streams: [1, 2]}}\n  - {name: sysbench-cpu,",
            ":8: iperf3[streams=1] has a second endpoint",
        ),
    ],
)
def test_what_cannot_run_in_pairs_is_refused(old: str, new: str, message: str) -> None:
    assert old in DUET
    with pytest.raises(UllageError) as caught:
        resolved(DUET.replace(old, new, 1))
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
    assert message in caught.value.message


def test_whole_generations_are_a_good_plan() -> None:
    text = GOOD.replace("max: 9", "max: 10") + "repeat: {instances: 2, iterations: 3}\n"
    checked, _ = schema.loads(text)
    assert (checked.repeat.instances, checked.repeat.iterations) == (2, 3)
    assert schema.loads(GOOD)[0].repeat.instances is None


@pytest.mark.parametrize(
    ("provider", "advice"),
    [
        ("docker", "`provider: oci` with `runtime: docker`"),
        ("Podman", "`provider: oci` with `runtime: podman`"),
        ("kvm", "`provider: qemu`"),
        ("azure", "ullage measures the host that it runs on"),
        ("qeum", "did you mean qemu?"),
    ],
)
def test_another_name_of_a_provider_points_to_it(provider: str, advice: str) -> None:
    with pytest.raises(UllageError) as caught:
        resolved(GOOD.replace("provider: qemu", f"provider: {provider}"))
    assert caught.value.kind is errors.PLAN_UNKNOWN_PROVIDER
    assert advice in caught.value.hint


def test_a_workload_is_called_by_its_as() -> None:
    text = GOOD.replace("{name: sysbench-cpu, vary", "{name: sysbench-cpu, as: mine, vary")
    assert [case.title for case in resolved(text).cases] == [
        "mine, threads 1",
        "mine, threads 2",
        resolved(GOOD).cases[2].title,
    ]


def test_guests_are_looked_into_by_perf_of_the_image() -> None:
    assert "linux-perf" not in matrix.packages(resolved(GOOD))
    assert "linux-perf" in matrix.packages(resolved(f"{GOOD}causes: guest\n"))


def test_what_a_trial_makes_itself_has_no_swap() -> None:
    """Nobody would let it swap, and the record would say so."""
    swapping = "{provider: native, swap: {on: zram, size: 64MiB}}"
    text = GOOD.replace("{provider: native}", swapping)
    assert resolved(text).environment("native").provider.swap_request is not None
    with pytest.raises(UllageError, match="which would have no swap") as caught:
        resolved(text.replace("name: sysbench-cpu, vary: {threads: [1, 2]}", "name: provisioning"))
    assert caught.value.kind is errors.PLAN_IMPOSSIBLE_MATRIX
