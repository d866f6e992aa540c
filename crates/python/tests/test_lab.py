"""The laboratory: verdicts, other parameters, other machines, and cells that are kept."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from conftest import command

import sinew
from sinew import lab

#: It computes, and takes a moment.
FIGURE = "amir06/fig12"


def test_experiments_are_listed():
    known = {entry["id"]: entry for entry in lab.list()}
    assert known[FIGURE]["claims"] > 0 and known[FIGURE]["real_time"] is False
    assert any(entry["real_time"] for entry in known.values())


def test_files_are_those_of_the_command_line_wherever_cells_are_measured(tmp_path):
    words = command("lab", "run", FIGURE, "--seed", "7", "--out", tmp_path / "cli")
    subprocess.run(words, check=True, capture_output=True)
    plain = lab.Outcome.read(tmp_path / "cli", FIGURE)
    here = lab.run(FIGURE, seed=7, keep=False)
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2) as processes:
        others = [lab.run(FIGURE, seed=7, keep=False, client=one) for one in (threads, processes)]
    for outcome in [here, *others]:
        assert outcome.files == plain.files
    assert here.claims and {claim["holds"] for claim in here.claims} <= {True, False, None}
    assert here.figures[0].svg.startswith("<svg") and here.document["build"] == sinew.build


def test_cells_are_measured_once(tmp_path):
    told: list[tuple[float, str]] = []
    note = lambda share, key: told.append((share, key))  # noqa: E731
    first = lab.run(FIGURE, keep=tmp_path, progress=note)
    grid = lab.cells(FIGURE)
    assert {key for _, key in told} == {cell["key"] for cell in grid} and told[-1][0] == 1.0
    told.clear()
    again = lab.run(FIGURE, keep=tmp_path, progress=note)
    assert again.files == first.files and told == []
    kept = sorted(tmp_path.glob("*/*.json"))
    assert len(kept) == len(grid)
    # One is lost, and one is damaged: both are measured again.
    kept[0].unlink()
    kept[1].write_text("{")
    assert lab.run(FIGURE, keep=tmp_path, progress=note).files == first.files and len(told) == 2


class Dies:
    """An executor whose third task fails, as that of a machine that is lost for good."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads, self._count = threads, 0

    def submit(self, work, *arguments):
        self._count += 1
        if self._count == 3:
            return self._threads.submit(lambda: 1 / 0)
        return self._threads.submit(work, *arguments)


def test_a_sweep_that_failed_goes_on_where_it_was(tmp_path):
    told: list[str] = []
    grid = lab.cells(FIGURE)
    with ThreadPoolExecutor(1) as threads, pytest.raises(ZeroDivisionError):
        lab.run(FIGURE, keep=tmp_path, client=Dies(threads))
    assert list(tmp_path.glob("*/*.json"))
    lab.run(FIGURE, keep=tmp_path, progress=lambda _, key: told.append(key))
    assert 0 < len(told) < len(grid)


def test_other_parameters_are_measured_and_judge_nothing():
    name, values = next(iter(lab.cells(FIGURE)[0]["parameters"].items()))
    outcome = lab.run(FIGURE, keep=False, **{name: [values]})
    assert {row[name] for row in outcome.rows} == {values}
    assert {claim["holds"] for claim in outcome.claims} == {None}
    assert f"{name}=" in outcome.claims[0]["note"]
    for wanted, answer in [
        ({name + "x": 1}, f"did you mean `{name}`"),
        ({name: "many"}, "expected a number"),
        ({"settings.hello_intervall": "1ms"}, "did you mean `settings.hello_interval`"),
        ({"settings.hello_interval": "nanms"}, "expected a time"),
    ]:
        with pytest.raises(ValueError, match=answer):
            lab.run(FIGURE, keep=False, set=wanted)


def test_cells_of_two_versions_are_refused_and_so_are_doubles(tmp_path):
    grid = lab.cells(FIGURE)
    request = lab._request(FIGURE, True, 1, None, {})
    measured = [lab._measure(request, cell, sinew.build) for cell in grid]
    other = json.loads(measured[0])
    other["identity"] = other["identity"].replace(sinew.build, "0.0.1+0")
    for cells, answer in [
        ([json.dumps(other), *measured[1:]], "one version"),
        ([*measured, measured[0]], "came twice"),
        (measured[1:], "is missing"),
    ]:
        with pytest.raises(ValueError, match=answer):
            lab._conclude(request, cells, tmp_path, 0.0)
    with pytest.raises(sinew.Error, match="same wheel"):
        lab._measure(request, grid[0], "0.0.1+0")


def test_rows_become_lines_of_a_chart():
    outcome = lab.run(FIGURE)
    x, y = list(outcome.rows[0])[:2]
    ((label, across, up),) = outcome.lines(x, y)
    assert label == y and across == sorted(across) and len(across) == len(up)
    with pytest.raises(ValueError, match="no column"):
        next(outcome.lines("nothing", y))


def test_what_cannot_be_run_is_answered(monkeypatch):
    with pytest.raises(ValueError, match=f"did you mean `{FIGURE}`"):
        lab.run(FIGURE + "x")
    with pytest.raises(TypeError, match="dask"):
        lab.run(FIGURE, keep=False, client=3)
    real = next(entry["id"] for entry in lab.list() if entry["real_time"])
    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match="real nodes"):
        lab.run(real, client=threads)
    monkeypatch.setattr(lab, "program", lambda: None)
    with pytest.raises(sinew.Error, match="install the wheel"):
        lab.run(real)
