"""What must hold of the rows of a Promela model: invariants, laws of leases, uniqueness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.lease_laws import FENCED, NEVER_FALLS, NEVER_STOLEN
from statemachine.promela.expressions import Reader
from statemachine.promela.names import NIL, column, moved, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine.machine import Transition
    from statemachine.promela.scope import Scope

SOUND = "SOUND"
"""Whether the invariants admit the row as a move leaves it."""

CHECK = "check()"
"""Asserts each of them."""

FENCE, LIVE, GROWS = "fenced(r)", "not_stolen(r)", "never_falls(r)"


def invariants(scope: Scope) -> Iterator[str]:
    """Write what admits a new row, and what is asserted of a moved one."""
    read = Reader(scope, moved)
    truths = [(rule.name, read.true(rule.condition)) for rule in scope.invariants]
    yield f"#define {SOUND} (" + " && ".join(["true", *(f"({t})" for _, t in truths)]) + ")"
    yield f"inline {CHECK} {{"
    for name, truth in truths:
        yield from _asserted(name, truth)
    yield "\tskip"
    yield "}"


def laws(scope: Scope) -> Iterator[str]:
    """Write the laws of leases, as far as columns are kept."""
    lease = scope.machine.lease
    if lease is None or scope.rows > 1:
        return
    token, expiry, count = lease.token_hash.name, lease.expires_at.name, lease.generation.name
    before, after, grown = f"{column(token)}[r]", moved(token), moved(count)
    live = f"({column(expiry)}[r] != {NIL} && {column(expiry)}[r] > 0)"
    both = f"({before} != {NIL} && {after} != {NIL})"
    most = scope.bounds(lease.generation)[1]
    for call, law, truth in (
        (
            FENCE,
            FENCED,
            f"{before} == {after} || {grown} > {column(count)}[r] || {grown} == {most}",
        ),
        (LIVE, NEVER_STOLEN, f"{before} == {after} || !({both} && {live})"),
        (GROWS, NEVER_FALLS, f"{grown} >= {column(count)}[r]"),
    ):
        yield f"inline {call} {{"
        yield from _asserted(law, truth)
        yield "\tskip"
        yield "}"


def laws_of(scope: Scope, transition: Transition) -> tuple[str, ...]:
    """Return the laws that a transition must keep."""
    if scope.machine.lease is None or scope.rows > 1:
        return ()
    return (GROWS,) if scope.machine.by_holder(transition) else (GROWS, FENCE, LIVE)


def taken(scope: Scope) -> Iterator[tuple[str, str]]:
    """Yield each uniqueness rule with when another row holds the place that a move enters."""
    if scope.rows == 1:
        return
    state = column(scope.machine.state.name)
    for rule in scope.machine.uniqueness:
        mine = [f"({Reader(scope, moved).true(rule.where)})"]
        mine += [f"{moved(c.name)} != {NIL}" for c in rule.columns]
        others = []
        for other in range(scope.rows):
            read = Reader(scope, lambda name, other=other: f"{column(name)}[{other}]")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            same = [f"{column(c.name)}[{other}] == {moved(c.name)}" for c in rule.columns]
            there = f"r != {other} && {state}[{other}] != 0"
            others.append(f"({there} && ({read.true(rule.where)}) && {' && '.join(same)})")
        yield rule.name, f"({' && '.join(mine)} && ({' || '.join(others)}))"


def _asserted(name: str, truth: str) -> Iterator[str]:
    yield "\tif"
    yield f"\t:: {truth} -> skip"
    yield f'\t:: else -> printf("broken: {told(name)}\\n"); assert(false)'
    yield "\tfi;"
