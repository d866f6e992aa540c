"""The command line: ``python -m sinew`` and the script ``sinew``."""

from __future__ import annotations

import signal
import sys

from ._program import name_program
from ._sinew import command_line


def main() -> int:
    """Runs the command line of this process; its exit status."""
    # Python only notes the signal and goes on. A command that waits for nothing else ends by it, and
    # one that cleans up installs a handler of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    name_program()
    return command_line(["sinew", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
