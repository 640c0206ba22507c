"""The report's first screen: when, where, beside whom, and the figures that the ratios are of."""

from __future__ import annotations

import pytest

from testing.synthetic import make_run
from ullage.analysis import overhead
from ullage.report import answer, page
from ullage.runs.reader import RunFolder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("first") / "run"
    return RunFolder.open(make_run(place, blocks=6, failures=(), raw=False))


def test_it_says_when_and_where(folder: RunFolder) -> None:
    analysis = overhead.analyse(folder)
    assert analysis.started_epoch_ns is not None
    texts = [fact.text for fact in answer.facts(folder, analysis)]
    assert answer.date(analysis.started_epoch_ns) in texts
    host = {"hostname": "a", "os": "Debian", "kernel": "6.1"}
    assert answer.system(host) == "a, Debian, Linux 6.1"
    assert answer.system({}) == ""


def test_a_crowded_host_is_named_and_a_quiet_one_is_not(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = overhead.analyse(folder)
    for share, named in ((0.4, True), (0.05, False), (None, False)):
        monkeypatch.setattr(answer, "crowd", lambda _, share=share: share)
        texts = " ".join(fact.text for fact in answer.facts(folder, analysis))
        assert ("busy host: others used 40 % of its CPUs" in texts) is named


def test_the_ratios_say_what_they_are_of_and_links_lead_somewhere(folder: RunFolder) -> None:
    html = page.render(folder, overhead.analyse(folder))
    assert 'class="abs">native ' in html and ", here " in html
    for anchor in ("plan", "trials"):
        assert f'href="#{anchor}"' in html and f'id="{anchor}"' in html
