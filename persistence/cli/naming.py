"""How the command line names a machine: a shipped one's name, or `module:NAME` of an own one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from persistence.cli.exits import USAGE, Ended

if TYPE_CHECKING:
    from statemachine.machine import Machine

MachineName = Annotated[
    str, typer.Argument(help="Name of the machine, or module:NAME of an own one.")
]
MachineNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MACHINE]...",
        help="Names of shipped machines, or module:NAME of own ones. Default: all shipped ones.",
        show_default=False,
    ),
]
OwnMachines = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MACHINE]...",
        help="Own machines, as module:NAME, which the database holds too.",
        show_default=False,
    ),
]


def machines_named(names: list[str] | None) -> tuple[Machine, ...]:
    """Return the named machines; all shipped ones where none is named.

    Raises:
        Ended: There is no such machine.
    """
    from statemachine.machines import ALL  # noqa: PLC0415 - `--help` need not pay for it

    return tuple(machine_named(name) for name in names) if names else ALL


def machine_named(name: str) -> Machine:
    """Return the machine of a name.

    Raises:
        Ended: There is none.
    """
    from statemachine.machines import ALL  # noqa: PLC0415 - as above

    module, colon, attribute = name.partition(":")
    if colon:
        return _imported(module, attribute)
    known = {machine.name: machine for machine in ALL}
    if name not in known:
        raise Ended(USAGE, f"there is no machine {name!r}; known: {', '.join(known)}")
    return known[name]


def _imported(module: str, attribute: str) -> Machine:
    from statemachine.machine import Machine  # noqa: PLC0415 - as above

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Ended(USAGE, f"there is no machine {module}:{attribute}: {error}") from error
    if not isinstance(found, Machine):
        raise Ended(USAGE, f"{module}:{attribute} is no machine")
    return found
