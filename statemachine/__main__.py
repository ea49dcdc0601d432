"""`python -m statemachine diagrams [--check]`: the generated files of the shipped machines."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from statemachine.machines import ALL
from statemachine.render.gallery import gallery


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or tell which are stale; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m statemachine", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    diagrams = commands.add_parser("diagrams", help="write the diagrams of the shipped machines")
    diagrams.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    diagrams.add_argument("--to", type=Path, default=Path("diagrams"), help="default: diagrams")
    given = parser.parse_args(arguments)
    found = stale(given.to)
    if given.check:
        for name in found:
            print(f"stale: {given.to / name}; run python -m statemachine diagrams", file=sys.stderr)
        return 1 if found else 0
    files = gallery(ALL)
    given.to.mkdir(parents=True, exist_ok=True)
    for name in found:
        path = given.to / name
        if name in files:
            path.write_text(files[name], encoding="utf-8", newline="\n")
        else:
            path.unlink()
        print(f"{'wrote' if name in files else 'removed'} {path}")
    return 0


def stale(directory: Path) -> list[str]:
    """Return the names of files that are missing, different or left over, in order."""
    files = gallery(ALL)
    present = {path.name: path.read_bytes() for path in sorted(directory.glob("*"))}
    wrong = [name for name, text in files.items() if present.get(name) != text.encode()]
    return [*wrong, *(name for name in present if name not in files)]


if __name__ == "__main__":
    sys.exit(main())
