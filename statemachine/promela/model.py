"""The text of a Promela model: rows that calls move, beside a clock that ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.errors import InvalidArgument
from statemachine.kinds import Integer, admit
from statemachine.promela.calls import MOVES, commands, written
from statemachine.promela.names import NIL, column, moved, told
from statemachine.promela.rules import CHECK, invariants, laws
from statemachine.promela.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.machine import Machine

MOST_ROWS = 4

LOAD, KEEP, FORGET, SETTLE = "load(r)", "keep(r)", "forget()", "settle()"
"""Inlines: begin a move, make it, drop what is left of it; bring instants into shortest form."""

_HEAD = """\
/* {machine}: written by `sqlatch export {machine} --format promela --rows {rows}`.
 *
 * {sight}
 * Instants are ticks from now; those that have passed keep their order alone. A condition is SQL's:
 * unknown, as with NULL, refuses. The database refuses what would break a uniqueness rule.
 *
 * To verify it, and to list each creation and transition that happens:
 *
 *     spin -a {machine}.pml && cc -O2 -DSAFETY -DNOREDUCE -DPRINTF -o pan pan.c
 *     ./pan -m1000000 | sort -u
 *
 * What is broken is told as a shortest story by `spin -t {machine}.pml`, after the same with -DBFS.
 */
"""
_ONE_ROW = "One row, with every column that a guard or an invariant reads."
_MORE_ROWS = (
    "Several rows, of which only what the uniqueness rules see is kept; the rest may be anything."
)


def to_promela(machine: Machine, *, rows: int = 1) -> str:
    """Return a machine as a Promela model.

    Its assertions are the machine's invariants and the laws of leases. Each call that happens is
    printed as `name: source -> dest`, states as their identifiers in the model.

    Args:
        machine: The declaration.

        rows: 1: one row with all that a guard or an invariant reads. 2 to 4: as many rows, with
            only what the uniqueness rules see of them; their guards may hold whenever some row
            that looks so could satisfy them.

    Raises:
        InvalidArgument: More or fewer rows.

        MachineError: It compares with constant instants, with what the engine writes, or counts
            too far.
    """
    admit(Integer(1, MOST_ROWS), rows, "rows")
    if rows > 1 and not machine.uniqueness:
        raise InvalidArgument("rows", "1, as the machine has no uniqueness rule")
    scope = Scope(machine, rows)
    return "\n".join(_lines(scope)) + "\n"


def _lines(scope: Scope) -> Iterator[str]:
    machine, rows = scope.machine, scope.rows
    sight = _ONE_ROW if rows == 1 else _MORE_ROWS
    yield _HEAD.format(machine=machine.name, rows=rows, sight=sight)
    yield f"#define ROWS {rows}"
    yield f"#define {NIL} (-32768)"
    for name, number, text in scope.numbers():
        yield f"#define {name} {number}" + (f" /* {told(text)} */" if text else "")
    yield ""
    yield f"mtype = {{ {', '.join(name for _, name in scope.states.items())} }};"
    yield ""
    state = machine.state.name
    for name in scope.columns:
        kind = "mtype" if name == state else "short"
        yield f"{kind} {column(name)}[ROWS];"
        yield f"{kind} {moved(name)};"
    yield "byte k;"
    yield ""
    yield from invariants(scope)
    yield from laws(scope)
    yield from _inlines(scope)
    yield ""
    called = commands(scope)
    variables = tuple(dict.fromkeys(name for command in called for name in command.variables))
    yield "active [ROWS] proctype row() {"
    yield "\tbyte r = _pid;"
    yield from (f"\tshort {name};" for name in variables)
    yield f"\tbit {MOVES};"
    yield "\tdo"
    yield f"\t:: atomic {{ d_step {{ {LOAD} }};"
    yield "\t\tif"
    for command in called:
        yield from written(scope, command)
    yield "\t\t:: else -> skip"
    yield "\t\tfi;"
    yield "\t\td_step {"
    yield f"\t\t\tif :: {MOVES} -> {KEEP} :: else fi;"
    cleared = "; ".join(f"{name} = 0" for name in (*variables, MOVES))
    yield f"\t\t\t{FORGET}; {cleared}"
    yield "\t\t} }"
    yield "\tod"
    yield "}"
    if scope.instants:
        yield ""
        yield from _clock(scope)


def _inlines(scope: Scope) -> Iterator[str]:
    names = scope.columns
    yield f"inline {LOAD} {{ " + "; ".join(f"{moved(n)} = {column(n)}[r]" for n in names) + " }"
    yield f"inline {FORGET} {{ " + "; ".join(f"{moved(n)} = 0" for n in names) + "; k = 0 }"
    yield from _settling(scope)
    yield f"inline {KEEP} {{"
    yield f"\t{SETTLE};"
    yield f"\t{CHECK};"
    yield "\t" + ";\n\t".join(f"{column(n)}[r] = {moved(n)}" for n in names)
    yield "}"


def _settling(scope: Scope) -> Iterator[str]:
    """Write how instants that have passed move together, in their order, one tick apart."""
    instants = scope.instants
    yield f"inline {SETTLE} {{"
    if instants:
        here = " || ".join(f"{moved(n)} == -k" for n in instants)
        below = [f"({moved(n)} != {NIL} && {moved(n)} < -k)" for n in instants]
        yield "\tk = 1;"
        yield f"\tdo :: k > {len(instants)} -> break"
        yield f"\t:: else -> if :: {here} -> k++"
        yield f"\t\t:: else -> if :: {' || '.join(below)} ->"
        for name, when in zip(instants, below, strict=True):
            yield f"\t\t\t{moved(name)} = ({when} -> {moved(name)} + 1 : {moved(name)});"
        yield "\t\t\tskip :: else -> break fi fi"
        yield "\tod;"
    yield "\tskip"
    yield "}"


def _clock(scope: Scope) -> Iterator[str]:
    yield "active proctype clock() {"
    yield "\tbyte r;"
    yield "\tdo"
    yield "\t:: d_step {"
    yield "\t\tr = 0;"
    yield "\t\tdo :: r == ROWS -> break"
    yield f"\t\t:: else -> {LOAD};"
    for name in scope.instants:
        old = moved(name)
        yield f"\t\t\t{old} = ({old} == {NIL} -> {NIL} : {old} - 1);"
    yield f"\t\t\t{SETTLE};"
    yield from (f"\t\t\t{column(name)}[r] = {moved(name)};" for name in scope.instants)
    yield f"\t\t\t{FORGET}; r++"
    yield "\t\tod;"
    yield "\t\tr = 0"
    yield "\t\t}"
    yield "\tod"
    yield "}"
