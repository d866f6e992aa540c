"""Experiments that Python measures: a function over a grid, with claims that are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _sinew, _toml

#: Numbers by the names of their measures.
Measured = Mapping[str, float | None]


class Study:
    """A function that measures, a grid of its arguments, and what is claimed of the numbers.

    >>> def call(seed, loss):
    ...     pair = sinew.Builder("pair", duration="5s").node("a", "b")
    ...     pair = pair.link("a", "b", delay_ms=20, loss_pct=loss).flow("a", "b").build()
    ...     return {"wire_bytes": pair.run(seed).overlay["wire_bytes"]}
    >>> study = Study("own/cost", call, grid={"loss": [1, 20]}, claims=["wire_bytes rises with loss"])
    >>> sinew.lab.run(study).claims[0]["holds"]
    True
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        function: Callable[..., Measured],
        *,
        grid: Mapping[str, Any],
        measures: Iterable[str | Mapping[str, Any]] | None = None,
        claims: Iterable[str | Mapping[str, Any]] = (),
        figures: Iterable[Mapping[str, Any]] = (),
        seeds: int = 1,
        title: str | None = None,
        about: str = "",
        version: str | None = None,
    ) -> None:
        """Checks everything but the function.

        - ``id``: two words, such as ``own/cost``: folder and name of the files.
        - ``function``: called with a seed and one value of each coordinate as keywords, ``function(seed,
          loss=5)``. It gives a dictionary of numbers; none is what could not be measured. Equal seeds
          should give equal numbers. For an executor of processes it must be a function of a module; threads
          and Dask take any.
        - ``grid``: for each coordinate a value, or a list of them: all numbers, or all texts.
        - ``measures``: the names that the function gives, or dictionaries of ``name`` and ``over`` ("mean",
          "most" or "least" of the runs). Without them the function is called once to see.
        - ``claims``: checks such as ``"lost_pct <= 0.5"``, or dictionaries of ``check``, ``key``, ``text``,
          ``source`` and ``where``. ``docs/lab.md`` has the language of checks.
        - ``figures``: dictionaries of ``x``, ``y``, ``by``, ``title``, ``x_label`` and ``y_label``.
        - ``seeds``: runs of each cell.
        - ``version``: a text that you change with the function. Only cells of a study with a version are kept.
        """
        if not isinstance(id, str):
            raise TypeError(f"id={id!r}: expected two words, such as 'own/cost'")
        if not callable(function):
            raise TypeError(f"function: expected a function, not {type(function).__name__}")
        if not isinstance(grid, Mapping):
            raise TypeError("grid: expected a dictionary, like {'loss': [1, 5]}")
        if "seed" in grid:
            raise ValueError("grid: `seed` is the run's own: give the coordinate another name")
        for name, given in (("measures", measures), ("claims", claims), ("figures", figures)):
            if isinstance(given, (str, Mapping)):
                raise TypeError(f"{name}: expected a list, like [{given!r}]")
        self.id = id
        self.function = function
        self.version = version
        self._grid = {name: _values(values) for name, values in grid.items()}
        if measures is None:
            first = {name: values[0] for name, values in self._grid.items()}
            measures = list(_numbers(function(1, **first)))
        by = "Python" if version is None else f"Python, version {version}"
        named = [m if isinstance(m, Mapping) else {"name": m} for m in measures]
        stated = [claim if isinstance(claim, Mapping) else {"check": claim} for claim in claims]
        table: dict[str, Any] = {
            "id": id,
            "title": title or id,
            "about": about,
            "seeds": seeds,
            "measured_by": by,
            "grid": self._grid,
            "measure": named,
            "claim": stated,
        }
        if drawn := [dict(figure) for figure in figures]:
            table["figure"] = drawn
        #: The text that ``sinew lab`` has for it.
        self.toml = _toml.write({"experiment": table})
        #: The same as the laboratory carries it.
        self.definition = _sinew.lab_define(id, self.toml)

    def measure(self, request: Mapping[str, Any], cell: Mapping[str, Any]) -> str:
        """Measures one cell, on whatever machine this is."""
        wanted = {**cell["parameters"], **cell.get("words", {})}
        values = {name: self._own(name, value) for name, value in wanted.items()}
        runs = []
        for seed in cell["seeds"]:
            try:
                runs.append(_numbers(self.function(seed, **values)))
            except Exception as error:
                where = f"{self.id} at {cell['key'] or 'its only cell'}, seed {seed}"
                if hasattr(error, "add_note"):
                    error.add_note(where)
                raise
        return _sinew.lab_given(dict(request), cell["key"], runs)

    def _own(self, name: str, value: Any) -> Any:
        """The value as the grid has it: 1 is not 1.0. Others become whole if all of the grid are."""
        own = self._grid[name]
        if value in own:
            return own[own.index(value)]
        is_whole = all(isinstance(one, int) for one in own) and float(value).is_integer()
        return int(value) if is_whole else value

    def __repr__(self) -> str:
        return f"<sinew.lab.Study {self.id}>"


def _values(values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, (Sequence, Iterable)):
        return [_plain(values)]
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _numbers(measured: Any) -> dict[str, float]:
    if not isinstance(measured, Mapping):
        raise TypeError(
            f"the function gave {type(measured).__name__}: expected a dictionary of numbers"
        )
    numbers = {}
    for name, value in measured.items():
        if not isinstance(name, str):
            raise TypeError(f"the function gave {name!r}: expected a text as the name of a measure")
        try:
            numbers[name] = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{name}={value!r}: expected a number") from None
    return numbers
