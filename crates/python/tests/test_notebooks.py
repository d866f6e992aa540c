"""The notebooks of the repository, executed from top to bottom."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
#: Seconds for one cell; the longest takes ten, if ns-3 is there.
CELL_S_MAX = 300


def test_there_are_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["peers.ipynb", "tutorial.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    for name in ("ipykernel", "matplotlib", "networkx", "pandas"):
        pytest.importorskip(name)
    # The kernel of this interpreter, whatever others the user has, and no file in a home.
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear its outputs"
    kernels = nbclient.NotebookClient(
        notebook, timeout=CELL_S_MAX, resources={"metadata": {"path": str(tmp_path)}}
    )
    kernels.create_kernel_manager()
    kernels.km.kernel_spec.argv[0] = sys.executable
    kernels.execute()
    # What it could not do is to be seen in the log of the tests, also of those that pass.
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    lines = [line for output in outputs for line in output.get("text", "").splitlines()]
    with capsys.disabled():
        for line in lines:
            if line.startswith("SKIPPED"):
                print(f"\n{path.name}: {line}", file=sys.stderr)
