"""OLD and NEW of a trigger, as SQL expressions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import frozen

from persistence.dialect import column_type, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from persistence.dialect import Dialect
    from statemachine.machine import Machine


@frozen(slots=False)
class Change:
    """The row before and after, in a trigger of a machine's table.

    Attributes:
        machine: Whose table.

        dialect: The database.
    """

    machine: Machine
    dialect: Dialect

    @cached_property
    def old(self) -> Callable[[str], sa.ColumnElement[Any]]:
        """A column of the row before, by name."""
        return self._row("OLD")

    @cached_property
    def new(self) -> Callable[[str], sa.ColumnElement[Any]]:
        """A column of the row afterwards, by name."""
        return self._row("NEW")

    def _row(self, alias: str) -> Callable[[str], sa.ColumnElement[Any]]:
        fields = self.machine.fields
        quote = self.dialect.ddl.identifier_preparer.quote
        columns = {
            name: sa.literal_column(f"{alias}.{quote(name)}", column_type(field.kind))
            for name, field in fields.items()
        }
        return columns.__getitem__

    def text(self, element: sa.ColumnElement[Any]) -> str:
        """Return an expression as SQL text."""
        return text_of(element, self.dialect.ddl)

    def same(self, name: str) -> sa.ColumnElement[bool]:
        """Return "the column is as it was"."""
        return self.dialect.same(self.new(name), self.old(name))

    def state(
        self, row: Callable[[str], sa.ColumnElement[Any]], states: tuple[str, ...]
    ) -> sa.ColumnElement[bool]:
        """Return "the row is in one of these states"."""
        column = row(self.machine.state.name)
        values = [sa.literal(state, column.type) for state in states]
        return column == values[0] if len(values) == 1 else self.dialect.among(column, values)
