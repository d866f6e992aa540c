"""The laboratory: experiments as grids of cells, with a verdict on each claim.

>>> import sinew
>>> fig12 = sinew.lab.run("amir06/fig12", keep=False)
>>> sorted({claim["source"][:6] for claim in fig12.claims})
['Amir06']

A cell is one point of an experiment's grid, and has a seed of its own. So it does not matter where and
in which order cells are measured: ``client`` takes a Dask client or any executor of
``concurrent.futures``, and the files are byte for byte those of ``sinew lab run`` on one machine.
Beside the experiments of the papers there are your own: in a file (``docs/lab.md``), or a :class:`Study`.
Finished cells are kept by what decides them (code, seed, size, parameters), and are not measured again.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _sinew
from ._program import program
from ._spread import Threads, spread
from ._store import Store
from ._units import whole_seed
from .study import Study

if TYPE_CHECKING:
    import pandas

__all__ = ["Experiment", "Figure", "Outcome", "Study", "cells", "list", "run"]

_list = list

#: The name of an experiment, a file with one, or a study.
Named = str | os.PathLike[str] | Study


class Experiment(dict[str, Any]):
    """``id``, ``title``, ``cells`` (quick, full), ``claims`` and ``real_time``; shown by its name."""

    def __repr__(self) -> str:
        return f"<{self['id']}: {self['title']}>"


def list() -> _list[Experiment]:  # noqa: A001
    """All experiments, in the papers' order."""
    return [Experiment(entry) for entry in json.loads(_sinew.lab_list())]


def _request(
    experiment: Named,
    quick: bool,
    seed: int,
    speech: str | os.PathLike[str] | None,
    wanted: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "experiment": experiment.id if isinstance(experiment, Study) else os.fspath(experiment),
        "definition": _definition(experiment),
        "quick": quick,
        "seed": whole_seed(seed),
        "program": program() or "",
        "speech": None if speech is None else os.fspath(speech),
        "set": [f"{key}={_words(value)}" for key, value in sorted(wanted.items())],
    }


def _definition(experiment: Named) -> str | None:
    """An experiment that is not built in, with all its texts, so that it can be sent elsewhere."""
    if isinstance(experiment, Study):
        return experiment.definition
    if callable(experiment):
        raise TypeError(
            "an experiment is a name, a file or a Study: write lab.Study(id, function, …)"
        )
    name = os.fspath(experiment)
    return _sinew.lab_define(name, None) if _sinew.lab_is_file(name) else None


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ",".join(_words(one) for one in value)
    return repr(float(value)) if isinstance(value, float) else str(value)


def cells(
    experiment: Named,
    *,
    quick: bool = True,
    seed: int = 1,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    **overrides: Any,
) -> _list[dict[str, Any]]:
    """The cells of an experiment: ``key``, ``parameters``, and ``identity``, all that decides them.

    Coordinates that are texts are in ``words``.
    """
    request = _request(experiment, quick, seed, None, {**(set or {}), **overrides})
    return json.loads(_sinew.lab_cells(request))


def run(
    experiment: Named,
    *,
    quick: bool = True,
    seed: int = 1,
    set: Mapping[str, Any] | None = None,  # noqa: A002
    out: str | os.PathLike[str] | None = None,
    client: Any = None,
    keep: str | os.PathLike[str] | bool = True,
    speech: str | os.PathLike[str] | None = None,
    progress: Callable[[float, str], object] | None = None,
    **overrides: Any,
) -> Outcome:
    """Runs one experiment: by its name, from a file ``.toml``, or a :class:`Study`.

    - ``quick``: under a minute, instead of the papers' own size.
    - ``overrides``: values of the grid, ``loss=[1, 2, 5]``. ``set`` takes the same, and settings of the
      simulated nodes: ``set={"settings.hello_interval": "50ms"}``. No claim is judged then. A name that
      does not exist is a ``ValueError`` with the nearest one.
    - ``out``: a folder for the files; without it they exist only in the outcome.
    - ``client``: a ``dask.distributed.Client``, or an executor of ``concurrent.futures``. A task is a
      cell. Without it, the cells run on all cores of this machine.
    - ``keep``: the folder of finished cells; true for the user's cache, false for none. Experiments
      with real nodes are never kept.
    - ``progress``: called with the share that is done, from 0 to 1, and the cell that came last.

    Ctrl-C raises ``KeyboardInterrupt`` at once. Cells that are finished by then are kept.
    """
    wanted = {**(set or {}), **overrides}
    entry = _entry(experiment)
    request = _request(experiment, quick, seed, speech, wanted)
    grid = json.loads(_sinew.lab_cells(request))
    if entry["real_time"]:
        _check_real(entry["id"], request, client)
        keep = False
    study = experiment if isinstance(experiment, Study) else None
    if study is not None and study.version is None:
        keep = False
    begun = time.monotonic()
    store = Store.of(keep)
    measured = {cell["key"]: text for cell in grid if (text := store.get(cell["identity"]))}
    missing = [cell for cell in grid if cell["key"] not in measured]
    spreader = (
        Threads(1 if entry["real_time"] else os.cpu_count() or 1) if client is None else client
    )
    tasks = {cell["key"]: (request, cell, _sinew.build, study) for cell in missing}
    identities = {cell["key"]: cell["identity"] for cell in missing}
    for key, text in spread(spreader, _measure, tasks):
        store.put(identities[key], text)
        measured[key] = text
        if progress is not None:
            progress(len(measured) / len(grid), key)
    in_order = [measured[cell["key"]] for cell in grid]
    took_s = time.monotonic() - begun
    if out is not None:
        return _conclude(request, in_order, Path(out), took_s)
    with tempfile.TemporaryDirectory(prefix="sinew-lab-") as folder:
        return _conclude(request, in_order, Path(folder), took_s)


def _entry(experiment: Named) -> Experiment:
    if (definition := _definition(experiment)) is not None:
        request = _request("", True, 1, None, {})
        return Experiment(json.loads(_sinew.lab_entry({**request, "definition": definition})))
    experiment = os.fspath(experiment) if not isinstance(experiment, Study) else experiment.id
    known = {entry["id"]: entry for entry in list()}
    if experiment not in known:
        from ._units import meant

        raise ValueError(
            f"no experiment {experiment!r}; {meant(experiment, known)}; a file of your own ends in .toml"
        )
    return known[experiment]


def _check_real(experiment: str, request: Mapping[str, Any], client: Any) -> None:
    if client is not None:
        raise ValueError(
            f"{experiment} measures real nodes, one cell at a time with nothing beside it: run it "
            "without a client"
        )
    if not request["program"]:
        raise _sinew.Error(
            f"{experiment} starts nodes by the script `sinew`, which is not beside this interpreter: "
            "install the wheel by pip"
        )


def _measure(
    request: Mapping[str, Any], cell: Mapping[str, Any], build: str, study: Study | None = None
) -> str:
    """One task, on whatever machine it runs."""
    if build != _sinew.build:
        raise _sinew.Error(
            f"a worker has sinew {_sinew.build}, and the cells are asked for by {build}: install the "
            "same wheel everywhere"
        )
    if study is not None:
        return study.measure(request, cell)
    return _sinew.lab_measure(dict(request), cell["key"])


def _conclude(
    request: Mapping[str, Any], measured: Sequence[str], out: Path, took_s: float
) -> Outcome:
    tally = json.loads(_sinew.lab_conclude(dict(request), _list(measured), str(out)))
    return Outcome.read(out, tally["experiments"][0]["id"], took_s)


class Figure:
    """A drawing of an experiment. A notebook shows it; ``svg`` is its text."""

    def __init__(self, name: str, svg: str) -> None:
        """``name`` is the file's."""
        self.name = name
        self.svg = svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SVG."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<sinew.lab.Figure {self.name}>"


class Outcome:
    """What an experiment has come to."""

    def __init__(self, document: dict[str, Any], files: dict[str, bytes], took_s: float) -> None:
        """From the experiment's JSON and the files beside it, by their names."""
        self.document = document
        #: The experiment's files, by their names: the same bytes wherever the cells were measured.
        self.files = files
        #: Seconds that it took here; not part of the files.
        self.took_s = took_s

    @staticmethod
    def read(out: str | os.PathLike[str], experiment: str, took_s: float = 0.0) -> Outcome:
        """Reads what ``run`` or ``sinew lab run`` has written into a folder."""
        base = Path(out) / experiment
        document = json.loads(base.with_suffix(".json").read_text(encoding="utf-8"))
        names = [f"{base.name}.json", f"{base.name}.csv", f"{base.name}.series.csv"]
        names += document["charts"]
        files = {
            name: path.read_bytes() for name in names if (path := base.with_name(name)).exists()
        }
        return Outcome(document, files, took_s)

    @property
    def id(self) -> str:
        """The experiment's name."""
        return self.document["id"]

    @property
    def claims(self) -> _list[dict[str, Any]]:
        """The claims: ``text``, ``source``, ``expected``, ``measured``, ``holds``.

        ``holds`` is true, false, or none if it cannot be tested. ``by_construction`` is there, and true,
        if nothing was tested.
        """
        return self.document["claims"]

    @property
    def figures(self) -> _list[Figure]:
        """The drawings; the first is the paper's figure."""
        names = self.document["charts"]
        return [Figure(name, self.files[name].decode()) for name in names]

    @property
    def rows(self) -> _list[dict[str, float | str | None]]:
        """What the cells measured: a dictionary of coordinates and numbers for each.

        A name with `` ±`` behind it has the standard error of that measure.
        """
        text = self.files[self.id.rsplit("/", 1)[-1] + ".csv"].decode()
        return [
            {name: _value(word) for name, word in row.items()}
            for row in csv.DictReader(io.StringIO(text))
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.rows)

    def lines(
        self, x: str, y: str, by: str | None = None
    ) -> Iterator[tuple[str, _list[float], _list[float]]]:
        """Rows as lines of a chart: for each value of ``by``, its name and the points."""
        rows = self.rows
        for name in (x, y, *([by] if by else [])):
            if rows and name not in rows[0]:
                from ._units import meant

                raise ValueError(f"no column {name!r}; {meant(name, rows[0])}")
        groups: dict[Any, _list[tuple[float, float]]] = {}
        for row in rows:
            a, b = row[x], row[y]
            if a is not None and b is not None:
                groups.setdefault(row[by] if by else y, []).append((a, b))
        for group, points in groups.items():
            points.sort()
            label = f"{by}={_shown(group)}" if by else str(group)
            yield label, [a for a, _ in points], [b for _, b in points]

    def plot(self, x: str, y: str, by: str | None = None, ax: Any = None) -> Any:
        """Draws a column over another with matplotlib, a line for each value of ``by``; the axes."""
        if ax is None:
            try:
                import matplotlib.pyplot as pyplot
            except ImportError as error:
                raise ImportError("plot needs matplotlib: pip install matplotlib") from error
            ax = pyplot.subplots()[1]
        for label, across, up in self.lines(x, y, by):
            ax.plot(across, up, marker="o", label=label)
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        if by is not None:
            ax.legend()
        return ax

    def __repr__(self) -> str:
        tested = [claim["holds"] for claim in self.claims if not claim.get("by_construction")]
        hold, fail, untested = (tested.count(word) for word in (True, False, None))
        made = len(self.claims) - len(tested)
        return (
            f"<sinew.lab.Outcome {self.id}: {hold} claims hold, {fail} do not, {untested} cannot be "
            f"tested, {made} hold by construction>"
        )


def _value(word: str) -> float | str | None:
    try:
        return float(word) if word else None
    except ValueError:
        # A coordinate that is a text.
        return word


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
