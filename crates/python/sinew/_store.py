"""Finished cells, by what decided them.

A cell's file has the SHA-256 of its identity as its name: the code that measured it, the family, the
size, the seed, the parameters. So a sweep that was interrupted goes on where it was, and two figures of
one family share their cells. A file that cannot be read, or is of another identity, counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path


class Store:
    """A folder of finished cells, or none."""

    def __init__(self, folder: Path | None, is_named: bool = True) -> None:
        """``folder`` is made when the first cell comes; unless the user named it, it may fail."""
        self._folder = folder
        self._is_named = is_named

    @staticmethod
    def of(keep: str | os.PathLike[str] | bool) -> Store:
        """True: the user's cache. False: none."""
        if keep is True:
            base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
            return Store(Path(base) / "sinew" / "cells", is_named=False)
        return Store(None if keep is False else Path(keep))

    def _path(self, identity: str) -> Path | None:
        if self._folder is None:
            return None
        name = hashlib.sha256(identity.encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json"

    def get(self, identity: str) -> str | None:
        """The cell, if it is kept."""
        path = self._path(identity)
        if path is None:
            return None
        try:
            text = path.read_text(encoding="utf-8")
            return text if json.loads(text)["identity"] == identity else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, identity: str, text: str) -> None:
        """Keeps a cell: whole or not at all."""
        path = self._path(identity)
        if path is None:
            return
        try:
            self._write(path, text)
        except OSError:
            # A cache that is full, or may not be written, is no reason to lose what was measured.
            if self._is_named:
                raise

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
