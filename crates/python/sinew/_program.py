"""Which file is started as a node.

Some experiments, ``sinew demo`` and ``sinew bench`` start nodes as processes of their own. The program
is the script ``sinew`` that installing the wheel has made beside the interpreter.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from . import _sinew


def program() -> str | None:
    """The script, or none if there is none."""
    script = Path(sysconfig.get_path("scripts")) / "sinew"
    return str(script) if os.access(script, os.X_OK) else None


def name_program() -> None:
    """Tells the crates which program it is, if there is one."""
    found = program()
    if found is not None:
        _sinew.name_program(found)
