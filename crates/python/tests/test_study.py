"""Experiments of one's own: from a file, and measured by Python."""

from __future__ import annotations

import json
import math
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import command

import sinew
from sinew import lab

OWN = """
[experiment]
id = "own/pair"
seeds = 2
[experiment.grid]
loss = [1, 10]
class = ["voice", "reliable"]
[[experiment.measure]]
name = "sent"
take = "flows.a-b.sent"
[[experiment.measure]]
name = "wire_bytes"
take = "overlay.wire_bytes"
[[experiment.claim]]
check = "wire_bytes > sent * 160"
where = { class = "voice" }
[scenario]
name = "pair"
duration = "2s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
a = "a"
b = "b"
path = "delay=10ms loss={loss}%"
follows = "up.csv"
[[flow]]
from = "a"
to = "b"
class = "{class}"
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    (tmp_path / "up.csv").write_text("at_s,delay_ms\n1,20\n")
    return path


def test_a_file_gives_what_the_command_line_gives(own, tmp_path):
    words = command("lab", "run", own, "--seed", "7", "--out", tmp_path / "cli")
    subprocess.run(words, check=True, capture_output=True)
    plain = lab.Outcome.read(tmp_path / "cli", "own/pair")
    with ProcessPoolExecutor(2) as processes:
        outcomes = [lab.run(own, seed=7, keep=False, client=one) for one in (None, processes)]
    assert [outcome.files for outcome in outcomes] == [plain.files] * 2
    outcome = outcomes[0]
    assert [claim["holds"] for claim in outcome.claims] == [True]
    assert outcome.rows[0]["class"] == "voice" and outcome.rows[0]["sent"] == 100
    assert {label for label, *_ in outcome.lines("loss", "sent", "class")} == {
        "class=voice",
        "class=reliable",
    }
    assert len(lab.cells(own)) == 4 and lab.cells(own)[0]["words"] == {"class": "voice"}


def test_a_file_is_kept_by_its_content(own, tmp_path):
    told: list[str] = []

    def run() -> lab.Outcome:
        told.clear()
        note = lambda share, key: told.append(key)  # noqa: E731
        return lab.run(own, keep=tmp_path / "kept", progress=note)

    run()
    assert len(told) == 4
    run()
    assert told == []
    (tmp_path / "up.csv").write_text("at_s,delay_ms\n1,30\n")
    run()
    assert len(told) == 4
    few = lab.run(own, keep=False, loss=[5])
    assert {row["loss"] for row in few.rows} == {5} and few.claims[0]["holds"] is None
    for wanted, answer in [({"los": 1}, "did you mean `loss`"), ({"class": "x"}, "a number")]:
        with pytest.raises(ValueError, match=answer):
            lab.run(own, set=wanted)


def test_what_is_wrong_in_a_file_is_answered(own):
    own.write_text(OWN.replace("{loss}", "{los}"))
    with pytest.raises(ValueError, match=r"own.toml:27: `{los}`.*did you mean `{loss}`"):
        lab.run(own)
    with pytest.raises(OSError, match="nothing.toml"):
        lab.run("nothing.toml")


def call(seed: int, loss: int, kind: str = "voice") -> dict[str, float | None]:
    """On its own, so that another process can have it."""
    assert isinstance(loss, int)
    pair = sinew.Builder("pair", duration="2s").node("a", "b")
    pair = pair.link("a", "b", delay_ms=10, loss_pct=loss).flow("a", "b", class_=kind).build()
    result = pair.run(seed)
    return {"wire_bytes": result.overlay["wire_bytes"], "nothing": None}


def test_a_study_is_an_experiment_like_any_other(tmp_path):
    study = lab.Study(
        "own/cost",
        call,
        grid={"loss": [1, 20], "kind": ["voice", "reliable"]},
        claims=["wire_bytes rises with loss", {"key": "no", "check": "wire_bytes < 1"}],
        figures=[{"x": "loss", "y": "wire_bytes", "by": "kind"}],
        seeds=3,
        title="What loss costs",
    )
    here = lab.run(study, out=tmp_path / "out")
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2) as processes:
        others = [lab.run(study, client=client) for client in (threads, processes)]
    assert all(outcome.files == here.files for outcome in others)
    assert [claim["holds"] for claim in here.claims] == [True, False]
    assert here.rows[0]["wire_bytes ±"] > 0 and "nothing" not in here.rows[0]
    assert here.document["title"] == "What loss costs" and "Python" in here.document["method"]
    assert (tmp_path / "out" / "index.html").read_text().count("own/cost") > 1
    # The seeds are those of a file's experiment: its cell and the run's number decide them.
    again = lab.run(study, seed=2)
    assert again.rows != here.rows


def test_only_a_study_with_a_version_is_kept(tmp_path):
    calls: list[int] = []

    def counted(seed: int, x: float) -> dict[str, float]:
        calls.append(seed)
        return {"y": x}

    def study(version: str | None) -> lab.Study:
        return lab.Study("own/x", counted, grid={"x": [1, 2]}, measures=["y"], version=version)

    for version, expected in [(None, 4), ("1", 2), ("2", 2)]:
        calls.clear()
        for _ in range(2):
            lab.run(study(version), keep=tmp_path)
        assert len(calls) == expected


@pytest.mark.parametrize(
    ("wrong", "error", "answer"),
    [
        ({"id": "cost"}, ValueError, "two words"),
        ({"grid": {"loss": [math.nan]}}, ValueError, "nan"),
        ({"grid": {"loss": []}}, ValueError, "1 to 1000 values"),
        ({"claims": ["wire_byte > 1"]}, ValueError, "did you mean `wire_bytes`"),
        ({"figures": [{"x": "los", "y": "wire_bytes"}]}, ValueError, "did you mean `loss`"),
        ({"function": 3}, TypeError, "expected a function"),
        ({"seeds": 0}, ValueError, "from 1 to 1000"),
    ],
)
def test_bad_studies_are_answered(wrong, error, answer):
    good = {"id": "own/cost", "function": call, "grid": {"loss": [1]}, "measures": ["wire_bytes"]}
    with pytest.raises(error, match=answer):
        lab.Study(**{**good, **wrong})


def test_what_the_function_does_wrong_reaches_the_caller():
    def raises(seed: int, x: float) -> dict[str, float]:
        raise LookupError("mine")

    for function, error, answer in [
        (raises, LookupError, "mine"),
        (lambda seed, x: {"z": 1}, sinew.Error, "none of its measures"),
        (lambda seed, x: {"y": "one"}, TypeError, "expected a number"),
        (lambda seed, x: 3, TypeError, "a dictionary of numbers"),
    ]:
        with pytest.raises(error, match=answer):
            lab.run(lab.Study("own/x", function, grid={"x": 1}, measures=["y"]))


def test_a_scenario_with_a_measured_path_goes_to_another_process(own, tmp_path):
    text = OWN[OWN.index("[scenario]") :].replace("{loss}", "5").replace("{class}", "voice")
    (tmp_path / "pair.toml").write_text(text)
    scenario = sinew.Scenario.from_toml(tmp_path / "pair.toml")
    assert scenario.files == {"up.csv": "at_s,delay_ms\n1,20\n"}
    with ProcessPoolExecutor(1) as processes:
        (tmp_path / "up.csv").unlink()
        there = processes.submit(run_json, scenario).result()
    assert json.loads(there)["flows"][0]["delay_ms"]["p95"] >= 20


def run_json(scenario: sinew.Scenario) -> str:
    return scenario.run(7).json


def test_a_builder_follows_files(tmp_path):
    (tmp_path / "up.csv").write_text("at_s,delay_ms\n0,20\n")
    pair = sinew.Builder("pair", duration="2s").node("a", "b")
    pair = pair.link("a", "b", delay_ms=10, follows=tmp_path / "up.csv").flow("a", "b").build()
    assert pair.run(7).flows[0]["delay_ms"]["p50"] >= 20
