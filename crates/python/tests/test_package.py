"""The package as it is installed: version, command line, types, examples in its texts."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from importlib import metadata, resources

from conftest import command

import sinew


def test_version_and_script_are_those_of_the_wheel():
    assert metadata.version("sinew") == sinew.__version__
    assert sinew.build.startswith(sinew.__version__ + "+")
    told = subprocess.run(command("version"), check=True, capture_output=True, text=True)
    assert told.stdout == f"sinew {sinew.__version__}\n"
    from sinew._program import program

    script = program()
    assert script is not None
    again = subprocess.run([script, "version"], check=True, capture_output=True, text=True)
    assert again.stdout == told.stdout


def test_the_command_line_has_its_exit_statuses():
    wrong = subprocess.run(command("nonsense"), capture_output=True, text=True)
    assert wrong.returncode == 2 and "nonsense" in wrong.stderr
    failed = subprocess.run(command("status", "--node", "/nowhere"), capture_output=True, text=True)
    assert failed.returncode == 1 and failed.stderr.startswith("sinew: no node")
    help_ = subprocess.run(command("--help"), capture_output=True, text=True)
    assert help_.returncode == 0 and "Exit status" in help_.stdout


def test_it_is_typed_and_loads_little():
    files = {file.name for file in resources.files("sinew").iterdir()}
    assert {"py.typed", "_sinew.pyi"} <= files
    # What takes long to import is imported when it is used.
    heavy = "asyncio", "pandas", "numpy", "networkx", "matplotlib", "distributed"
    code = f"import sys, sinew; print([name for name in {heavy!r} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout == "[]\n"


def test_every_public_thing_is_documented():
    for name in sinew.__all__:
        thing = getattr(sinew, name)
        if isinstance(thing, str):
            continue
        assert thing.__doc__, name
        for inner, method in vars(thing).items():
            if isinstance(thing, type) and not inner.startswith("_") and callable(method):
                assert method.__doc__, f"{name}.{inner}"


def test_examples_in_the_texts_work():
    for module in pkgutil.iter_modules(sinew.__path__):
        if module.name not in ("__main__", "_sinew"):
            loaded = importlib.import_module(f"sinew.{module.name}")
            results = doctest.testmod(loaded, extraglobs={"sinew": sinew})
            assert results.failed == 0, module.name
    assert doctest.testmod(sinew).failed == 0
