"""The server's side of the web workloads: what it is started with, and what its minder says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.web_samples import bent, output, printing, sample
from tests.workloads.workload_runs import context_in
from ullage.runs.events import Usage
from ullage.workloads.base import InvalidTrialError, Output
from ullage.workloads.web.web_latency import WebLatency, WebLatencyParameters
from ullage.workloads.web.wrk import Wrk, WrkParameters

WRK = Wrk()
PARAMETERS = WrkParameters(time_s=1)


def outputs() -> dict[str, Output]:
    return sample("wrk", "nginx")


def refused(server: str | Output) -> str:
    printed = {**outputs(), "server": output(server) if isinstance(server, str) else server}
    with pytest.raises(InvalidTrialError) as caught:
        WRK.check(PARAMETERS, printed)
    return str(caught.value)


def test_the_cpu_time_is_that_of_serving_over_the_replies() -> None:
    WRK.check(PARAMETERS, outputs())
    figures = WRK.parse(PARAMETERS, outputs())
    served = json.loads(outputs()["server"].stdout.split("\n")[1])
    requests = json.loads(outputs()["client"].stdout.strip().split("\n")[-1])["requests"]
    assert figures["server_cpu_per_reply"] == served["serving_cpu_s"] / requests
    assert WRK.facts(PARAMETERS, outputs()) == {"server": "nginx/1.22.1"}


def test_a_server_that_did_not_come_to_its_end_gives_no_figure() -> None:
    good = outputs()["server"]
    assert "signal 9" in refused(replace(good, status=None, signal=9))
    assert "status 1" in refused(replace(good, status=1, stderr="error: the server: it ended"))
    assert "two lines" in refused(good.stdout.split("\n")[0] + "\n")


def test_another_server_on_that_port_is_not_measured() -> None:
    banner = outputs()["server"].stdout.replace("nginx/1.22.1", "Apache/2.4.71")
    assert "calls itself" in refused(banner)
    assert "calls itself" in refused(banner.replace('"Apache/2.4.71"', "null"))


@pytest.mark.parametrize("value", ["0", "-1", "NaN", "Infinity", "1e999", '"1"', "null", "true"])
def test_cpu_time_is_a_positive_number(value: str) -> None:
    first = outputs()["server"].stdout.split("\n")[0]
    assert refused(f'{first}\n{{"serving_cpu_s":{value},"total_cpu_s":1.0,"processes":2}}\n')
    assert refused(f'{first}\n{{"serving_cpu_s":1.0,"total_cpu_s":{value},"processes":2}}\n')


def test_more_cpu_time_than_the_agent_counted_is_no_figure() -> None:
    used = Usage(user_s=0.03, system_s=0.03, max_rss_bytes=1)
    assert "0.06 s in all" in refused(replace(outputs()["server"], usage=used))


@settings(max_examples=150, deadline=None)
@given(text=bent(outputs()["server"].stdout) | st.text())
def test_whatever_it_says_is_invalid_or_gives_a_figure(text: str) -> None:
    printed = printing(outputs(), "server", text)
    try:
        WRK.check(PARAMETERS, printed)
    except InvalidTrialError:
        return
    figure = WRK.parse(PARAMETERS, printed)["server_cpu_per_reply"]
    assert isinstance(figure, float) and 0 < figure < 1


@pytest.mark.parametrize("server", ["nginx", "apache2"])
def test_the_configuration_and_the_documents_are_written_before_the_start(
    server: str, tmp_path: Path
) -> None:
    parameters = WebLatencyParameters.model_validate(
        {"server": server, "port": 9999, "document": 7000}
    )
    context = context_in(tmp_path, WebLatency(), parameters)
    (place,) = WebLatency().prepare(parameters, context)
    text = next(word for word in place.argv if word.startswith("server.conf="))
    assert place.argv[-2:] == ("--document", "www/7000=7000")
    workers = {
        "nginx": f"worker_processes {context.cpus};",
        "apache2": f"ServerLimit {context.cpus}",
    }
    listen = {"nginx": "listen 9999 ", "apache2": "Listen 0.0.0.0:9999"}
    assert workers[server] in text and listen[server] in text
    task, client = WebLatency().tasks(parameters, context)
    assert task.service and task.ready == '{"listening":true' and not client.service
    assert task.argv[: task.argv.index("--")][-4:] == ("--path", "/7000", "--bytes", "7000")
    assert server in task.argv[task.argv.index("--") :]
