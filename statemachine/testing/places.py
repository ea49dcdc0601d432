"""Which rows hold the places of uniqueness rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.interpret import holds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine.kinds import Plain, Row
    from statemachine.machine import Machine, Uniqueness


def place_of(rule: Uniqueness, row: Row) -> tuple[Plain, ...] | None:
    """Return the place that a row holds under a rule; None: the rule does not reach it."""
    place = tuple(row[column.name] for column in rule.columns)
    inside = None not in place and holds(rule.where, row, {}, 0) is True
    return place if inside else None


def holder_of(
    machine: Machine, rows: Mapping[str, Row], rule: Uniqueness, beside: Row
) -> Row | None:
    """Return the other row that holds the place which a row has or would have."""
    place = tuple(beside[column.name] for column in rule.columns)
    key = machine.key.name
    return next(
        (
            other
            for other in rows.values()
            if other[key] != beside[key] and place_of(rule, other) == place
        ),
        None,
    )


def in_the_way(machine: Machine, rows: Mapping[str, Row], row: Row) -> list[tuple[Uniqueness, Row]]:
    """Return the rules by which other rows hold a place that a row would take, and those rows."""
    found: list[tuple[Uniqueness, Row]] = []
    for rule in machine.uniqueness:
        other = None if place_of(rule, row) is None else holder_of(machine, rows, rule, row)
        if other is not None:
            found.append((rule, other))
    return found
