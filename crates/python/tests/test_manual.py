"""The examples of the manual, as they are printed: one after the other, as a reader types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MANUALS = [ROOT / "docs" / "python.md", ROOT / "README.md"]
#: What a figure of a scenario may take.
FIGURE_LINES_MAX = 10


def blocks(manual: Path) -> list[str]:
    text = manual.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("manual", MANUALS, ids=lambda path: path.name)
def test_the_examples_work_as_they_are_printed(manual, network, monkeypatch, tmp_path):
    for name in ("matplotlib", "pandas", "distributed"):
        pytest.importorskip(name)
    # Its folder is called `net`, as in the manual.
    monkeypatch.chdir(network.parent)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names: dict[str, object] = {"__name__": "manual"}
    found = blocks(manual)
    assert found
    for number, block in enumerate(found, 1):
        exec(compile(block, f"{manual.name}, example {number}", "exec"), names)


def test_a_figure_of_a_scenario_takes_few_lines():
    figure = next(block for block in blocks(MANUALS[0]) if "plt.plot" in block)
    assert len([line for line in figure.splitlines() if line.strip()]) <= FIGURE_LINES_MAX
