"""Generate Python code from proto/*.proto; with --check only say what is stale.

Messages only: services are served by generic handlers, so no stubs are needed. Generated files are committed.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PACKAGE = "lograft/proto"
FOLDER = Path(__file__).resolve().parent.parent / "proto"
SUFFIXES = ("_pb2.py", "_pb2.pyi")

# The compiler's version is written into the code, but another version is no reason to call the code stale.
VERSION_LINES = re.compile(r"^# Protobuf Python Version: .*$|(?<=Domain\.PUBLIC,\n)(?:    \d+,\n)+    '[^']*',$", re.M)


def generate(folder: Path) -> dict[str, str]:
    """The files that the .proto files of `folder` make, by name. Imports read `lograft.proto.<name>_pb2`."""
    sources = sorted(path.name for path in folder.glob("*.proto"))
    with tempfile.TemporaryDirectory() as output:
        arguments = [
            f"-I{PACKAGE}={folder}",
            f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            *(f"{PACKAGE}/{source}" for source in sources),
        ]
        if protoc.main(["protoc", *arguments]) != 0:
            raise SystemExit("generate_proto: protoc failed")
        return {path.name: path.read_text() for path in sorted((Path(output) / PACKAGE).iterdir())}


def stale_files(folder: Path) -> list[str]:
    """Names of generated files that are missing, no longer what their source makes, or left without a source."""
    wanted = generate(folder)
    present = {path.name: path.read_text() for path in folder.iterdir() if path.name.endswith(SUFFIXES)}
    names = sorted(wanted.keys() | present.keys())
    return [name for name in names if _essence(wanted.get(name)) != _essence(present.get(name))]


def _essence(content: str | None) -> str | None:
    return None if content is None else VERSION_LINES.sub("", content)


def write(folder: Path) -> list[str]:
    """Bring the stale files of `folder` up to date; their names."""
    stale = stale_files(folder)
    wanted = generate(folder)
    for name in stale:
        if name in wanted:
            (folder / name).write_text(wanted[name])
        else:
            (folder / name).unlink()
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 and name the files that are stale")
    check = parser.parse_args().check
    names = stale_files(FOLDER) if check else write(FOLDER)
    for name in names:
        print(f"{'stale' if check else 'generated'}: proto/{name}")
    if check and names:
        print("run `make proto`", file=sys.stderr)
    return 1 if check and names else 0


if __name__ == "__main__":
    sys.exit(main())
