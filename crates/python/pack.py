"""Packs an extension module that is built already into a wheel, without compiling anything.

    python3 pack.py LIBRARY FOLDER VERSION

The wheels that people install are made by maturin (`maturin build --release`). This makes the same
package out of what `cargo test` has built, so that the tests of the package cost no second build. Name,
description and scripts are those of pyproject.toml. Prints the path of the wheel.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10 has none; its pip has one.
    from pip._vendor import tomli as tomllib

HERE = Path(__file__).parent
#: The oldest Python of the stable interface that the module is built for.
TAG = f"cp310-abi3-linux_{platform.machine()}"
#: Of a module with line numbers, most is debugging information: it is stripped, and hardly packed.
LEVEL = 1


def main(library: Path, folder: Path, version: str) -> Path:
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = project["name"]
    info = f"{name}-{version}.dist-info"
    scripts = [f"{script} = {entry}" for script, entry in project["scripts"].items()]
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: pack.py", "Root-Is-Purelib: false", f"Tag: {TAG}"]
    files = {
        f"{name}/{path.name}": path.read_bytes()
        for path in sorted((HERE / "sinew").iterdir())
        if path.suffix in (".py", ".pyi", ".typed") or path.name == "py.typed"
    }
    files[f"{name}/_sinew.abi3.so"] = stripped(library)
    files[f"{info}/METADATA"] = text(metadata)
    files[f"{info}/WHEEL"] = text(wheel)
    files[f"{info}/entry_points.txt"] = text(["[console_scripts]", *scripts])
    records = [f"{path},sha256={digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = text([*records, f"{info}/RECORD,,"])
    folder.mkdir(parents=True, exist_ok=True)
    packed = folder / f"{name}-{version}-{TAG}.whl"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return packed


def stripped(library: Path) -> bytes:
    """The module without debugging information, where there is a program that strips."""
    strip = shutil.which("strip")
    if strip is None:
        return library.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / library.name
        subprocess.run([strip, "--strip-debug", "-o", out, library], check=True)
        return out.read_bytes()


def text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
