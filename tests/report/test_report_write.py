"""The report file and the pictures, without a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ullage
from testing.synthetic import CURVE_WORKLOAD, ENVIRONMENTS, TRUTH, WORKLOADS
from tests.report.made import made_run
from ullage.cli import results
from ullage.common import errors
from ullage.report import answer, document, doubts, pictures, workloads
from ullage.report.charts import strip, timeline
from ullage.report.page import write
from ullage.report.views import Specs

MB = 1_000_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(*made_run(tmp_path_factory.mktemp("run")))


def test_lands_in_the_run_folder_whole(written: Path) -> None:
    assert written.name == "report.html"
    assert not [p.name for p in written.parent.iterdir() if ".tmp" in p.name]
    assert written.read_text().rstrip().endswith("</html>")


def test_can_be_written_elsewhere(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", blocks=6)
    out = tmp_path / "other.html"
    assert write(folder, analysis, out) == out
    assert out.is_file() and not (folder.path / "report.html").exists()


def test_policy_names_exactly_the_scripts(written: Path) -> None:
    text = written.read_text()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    packed = re.search(r'<script type="text/plain" id="library">(.*?)</script>', text)
    assert packed is not None
    scripts.append(zlib.decompress(base64.b64decode(packed[1])).decode())
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = re.findall(r"sha256-([^&']+)", policy.group(1).replace("&#39;", "'"))
    assert sorted(allowed) == sorted(digests) and len(digests) == 2
    assert "unsafe-eval" not in text.split("</head>")[0]
    assert "default-src" in policy.group(1)


def test_a_page_without_charts_has_no_script() -> None:
    page = document.render(
        "ullage.experiments.clock", "clock.html.j2", "A title", (), answer=("Yes.",), sections=()
    )
    assert "<p>Yes.</p>" in page
    assert "script" not in page


def test_jinja_is_set_up_in_one_place() -> None:
    """With what keeps untrusted text harmless: escaping, strictness, the last guard."""
    package = Path(ullage.__file__).parent
    assert [
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if "jinja2" in file.read_text(encoding="utf-8")
    ] == ["report/document.py"]


def test_names_no_address_to_fetch(written: Path) -> None:
    page = re.sub(r"<script.*?</script>", "", written.read_text(), flags=re.DOTALL)
    assert re.findall(r"https?://", page) == []


def test_charts_are_specifications_with_their_data(written: Path) -> None:
    specs = re.findall(
        r'<script type="application/json" id="(chart-\d+)">(.*?)</script>', written.read_text()
    )
    assert len(specs) == 12
    for _, text in specs:
        chart = json.loads(text)
        assert chart["spec"]["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
        assert all(chart["data"].values())


def test_a_long_run_is_thinned_for_display_and_says_so(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", blocks=320, raw=False)
    page = write(folder, analysis).read_text()
    assert len(folder.trials) == 320 * 20
    assert len(page.encode()) < 2 * MB
    assert f"Drawn are {timeline.MOST_BARS:,} of 6,400 trials" in page
    assert f"Drawn are {strip.MOST_POINTS} of 320 points" in page
    assert "6400 trials failed" in page
    specs = [json.loads(t) for t in re.findall(r'id="chart-\d+">(.*?)</script>', page)]
    points = [len(c["data"]["points"]["rows"]) for c in specs if "points" in c["data"]]
    assert max(points) == strip.MOST_POINTS * len(ENVIRONMENTS)
    bars = specs[-1]["data"]
    assert len(bars["bars"]["rows"]) == timeline.MOST_BARS and len(bars["bad"]["rows"]) == 1


def test_a_dead_environment_has_no_figure_and_no_zero(tmp_path: Path) -> None:
    dead = [(b, "lxc", w.key) for b in range(9) for w in WORKLOADS]
    folder, analysis = made_run(tmp_path / "run", blocks=8, failures=dead)
    rows = {row.label: row.cells for row in answer.cellar(analysis)}
    assert {cell.gap for cell in rows["LXC"]} == {"no figure"}
    assert all("no figure" in cell.svg for cell in rows["LXC"])
    page = write(folder, analysis).read_text()
    assert "no figure: " in page and "8 of 8 failed" in page


def test_better_than_native_is_over_the_brim(tmp_path: Path) -> None:
    truth = {**TRUTH, ("lxc", "sysbench-cpu"): 0.7}
    _, analysis = made_run(tmp_path / "run", truth=truth)
    row = next(row for row in answer.cellar(analysis) if row.label == "LXC")
    assert re.fullmatch(r"4\d % over", row.cells[0].gap)


def test_unequal_nuisances_are_named_beside_every_ratio(tmp_path: Path) -> None:
    odd = ENVIRONMENTS[2].model_copy(
        update={"nuisances": {**ENVIRONMENTS[2].nuisances, "memory": "2147483648"}}
    )
    environments = (*ENVIRONMENTS[:2], odd, *ENVIRONMENTS[3:])
    folder, analysis = made_run(
        tmp_path / "run", blocks=6, environments=environments, allowed=("memory",)
    )
    labels = [group.label for group in answer.groups(analysis)]
    assert "container (crun), unequal in memory" in labels
    page = write(folder, analysis).read_text()
    assert "unequal, allowed by the plan" in page and "2GiB" in page


def test_doubts_of_one_kind_stand_together(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", blocks=8)
    of_run, kinds = doubts.about_run(folder, analysis), doubts.by_kind(analysis)
    every = doubts.doubted((*analysis.comparisons, *analysis.again))
    codes = [(doubt.code, doubt.advice) for doubt in every]
    assert codes
    assert len(codes) == len(set(codes))
    kinds_with_advice = [(doubt.texts[0].partition(": ")[0], doubt.advice) for doubt in kinds]
    assert kinds_with_advice == codes
    assert any("KVM does not work" in text for doubt in of_run for text in doubt.texts)
    (emulated,) = [text for doubt in kinds for text in doubt.texts if text.startswith("emulated:")]
    assert emulated.startswith("emulated: qemu-tcg (emulated), CPU, 1 thread (events_rate); ")
    assert emulated.endswith(" and 1 more.")


def test_each_workload_says_how_sure_it_is(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", blocks=32, blocks_each=4, correction="holm")
    page = write(folder, analysis).read_text()
    assert page.count("<summary>How sure is this?</summary>") == len(WORKLOADS)
    for view in workloads.views(folder, analysis, Specs()):
        assert [detail.label for detail in view.details] == [
            "container (crun)",
            "LXC",
            "qemu-tcg (emulated)",
            "native, again",
        ]
        for detail in view.details:
            names = [name for name, _ in detail.facts]
            assert {"rests on", "covers", "Type A", "Type B", "both together"} <= set(names)
            assert detail.sentence in html.unescape(page)
    assert "8 makings of the instances" in page
    assert "Intervals cover intermediate precision: " in page
    assert "corrected together by Holm" in html.unescape(page)


def test_an_unfinished_run_without_trials_has_a_report(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", blocks=0, failures=(), finished=False)
    page = write(folder, analysis).read_text()
    assert "it has no end" in page


def test_pictures_for_papers(tmp_path: Path) -> None:
    folder, analysis = made_run(
        tmp_path / "run", blocks=8, workloads=(WORKLOADS[0], CURVE_WORKLOAD)
    )
    files = pictures.export_charts(folder, analysis, tmp_path / "out", ("svg", "png", "pdf"))
    assert {file.stem for file in files} == {
        "barrels",
        "ratios",
        "sysbench-cpu-events-rate-trials",
        "sysbench-cpu-events-rate-pairs",
        "sysbench-cpu-latency-p95-trials",
        "netpipe-throughput-curve",
        "netpipe-throughput-ratios",
        "timeline",
    }
    magic = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for file in files:
        assert file.read_bytes().startswith(magic[file.suffix])
    for file in files:
        if file.suffix == ".svg":
            text = file.read_text()
            ElementTree.fromstring(text)
            assert "var(--" not in text


def test_one_picture_by_its_name(tmp_path: Path) -> None:
    folder, analysis = made_run(tmp_path / "run", blocks=8, workloads=(WORKLOADS[0],))
    all_of_them = dict(pictures.pictures(folder, analysis))
    assert (
        pictures.picture_named(folder, analysis, "ratios", "svg").decode() == all_of_them["ratios"]
    )
    assert pictures.picture_named(folder, analysis, "barrels", "pdf").startswith(b"%PDF")
    with pytest.raises(errors.UllageError, match="barrels, ratios, ") as caught:
        pictures.picture_named(folder, analysis, "ratio", "png")
    assert caught.value.kind is errors.EXPORT_UNKNOWN_PICTURE
    assert caught.value.hint == "did you mean ratios?"


def test_the_command_exports_pictures_and_tables(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = made_run(tmp_path / "run", blocks=8, workloads=(WORKLOADS[0],))[0].path
    results.export_command(run, "svg", "timeline", out=tmp_path / "time.svg")
    ElementTree.fromstring((tmp_path / "time.svg").read_text())
    results.export_command(run, "png", "ratios", out=None)
    assert capfdbinary.readouterr().out.startswith(b"\x89PNG")
    with pytest.raises(errors.UllageError, match="latex, parquet, svg, pdf, png"):
        results.export_command(run, "gif", "ratios", out=None)


def test_a_long_answer_without_a_comparison_has_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of one environment on 400 machines whose trials had no figures."""
    monkeypatch.setattr("ullage.report.page.TOO_LONG", 0)
    alone = {"environments": ENVIRONMENTS[:1], "raw": False, "failures": ()}
    folder, analysis = made_run(tmp_path / "run", blocks=2, **alone)
    assert not analysis.primary()
    assert "<html" in write(folder, analysis).read_text()


def test_a_very_long_answer_is_folded_under_its_count(tmp_path: Path) -> None:
    many = [
        ENVIRONMENTS[2].model_copy(update={"key": f"c{i}", "label": f"container {i}"})
        for i in range(9)
    ]
    folder, analysis = made_run(
        tmp_path / "run",
        blocks=6,
        noise_sd=0.4,
        environments=(*ENVIRONMENTS[:2], *many),
        raw=False,
        failures=(),
    )
    assert (
        answer.summary(analysis) == "9 environments in 36 comparisons with native: 36 inconclusive."
    )
    page = write(folder, analysis).read_text()
    assert page.index("36 inconclusive") < page.index("In words, environment by environment")
