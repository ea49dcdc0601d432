"""What a table's triggers must refuse and record, derived from the machine; no database's syntax.

Against raw SQL these hold edges, columns, invariants and history. Guards that need the call's
parameters (the token) hold only for calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from attrs import frozen

from persistence.change import Change
from persistence.dialect import column_type, short
from persistence.expressions import Scope, condition, constant
from persistence.recording import Recorder
from statemachine.fields import ENGINE_FIELDS
from statemachine.vocabulary import Clear, Column, Put, terms_in

if TYPE_CHECKING:
    from persistence.dialect import Dialect
    from statemachine.machine import Creation, Machine, Transition
    from statemachine.vocabulary import Condition


@frozen
class Rule:
    """A change that is refused.

    Attributes:
        name: Names the trigger.

        columns: The rule is looked at when one of these is written.

        broken: SQL over OLD and NEW that is true of a refused change.

        message: What is said then.
    """

    name: str
    columns: tuple[str, ...]
    broken: str
    message: str


@frozen
class Slot:
    """A uniqueness rule as a look at the other rows.

    Attributes:
        name: Name of the unique index.

        columns: Writing one of these may enter the rule's set.

        entered: SQL over NEW: the row is in the set.

        taken: SQL over NEW and `other`: another row holds the slot.
    """

    name: str
    columns: tuple[str, ...]
    entered: str
    taken: str


@frozen
class Guardrails:
    """All that a machine's triggers hold.

    Attributes:
        machine: Whose.

        insert: Broken by an insert; over NEW.

        update: Broken by updates; over OLD and NEW.

        slots: Its uniqueness rules.

        history: The columns of a history row and their values, over NEW.

        source: The state before, over OLD.

        changes: The recorded columns that changed, as JSON text, over OLD and NEW.

        takeable: SQL over NEW: a selection might take the row now; None without selections.

        born: The recorded columns of a new row, as JSON text, over NEW.
    """

    machine: Machine
    insert: Rule
    update: tuple[Rule, ...]
    slots: tuple[Slot, ...]
    history: tuple[tuple[str, str], ...]
    source: str
    changes: str
    takeable: str | None
    born: str


def index_name(machine: Machine, rule: str) -> str:
    """Return the name of the unique index that holds a uniqueness rule."""
    return short(f"{machine.table}_{rule.replace(' ', '_')}")


def guardrails(machine: Machine, dialect: Dialect) -> Guardrails:
    """Derive a machine's guardrails, printed for one database."""
    return _Writer(machine, dialect).guardrails()


class _Writer:
    def __init__(self, machine: Machine, dialect: Dialect) -> None:
        self.machine = machine
        self.dialect = dialect
        self.change = Change(machine, dialect)
        self.old, self.new = self.change.old, self.change.new

    def guardrails(self) -> Guardrails:
        machine, recorder = self.machine, Recorder(self.change)
        return Guardrails(
            machine,
            self._insert(),
            (self._edge(), *self._columns(), *self._once(), *self._clear_only()),
            tuple(self._slot(rule) for rule in range(len(machine.uniqueness))),
            recorder.history(),
            self.change.text(self.old(machine.state.name)),
            recorder.json(changed=True),
            recorder.takeable(),
            recorder.json(changed=False),
        )

    def _raised(self) -> sa.ColumnElement[bool]:
        return self.new("revision") == self.old("revision") + sa.literal(1, sa.BigInteger())

    def _edge(self) -> Rule:
        """An update raises the revision by one, by a transition declared between its states."""
        state = self.machine.state.name
        moves = sa.or_(*(self._move(t) for t in self.machine.transitions if not t.quiet))
        lawful = sa.and_(self._raised(), self.new("updated_at") >= self.old("updated_at"), moves)
        columns = (state, *ENGINE_FIELDS)
        untouched = sa.and_(*(self.change.same(name) for name in columns))
        return Rule(
            "edge",
            columns,
            _untrue(self.change.text(sa.or_(lawful, untouched))),
            "no declared transition does this",
        )

    def _move(self, transition: Transition) -> sa.ColumnElement[bool]:
        named = self.new("last_transition") == sa.literal(transition.name, sa.Text())
        if transition.dest is None:
            dest = self.new(self.machine.state.name) == self.old(self.machine.state.name)
        else:
            dest = self.change.state(self.new, (transition.dest,))
        return sa.and_(named, self.change.state(self.old, transition.source), dest)

    def _columns(self) -> list[Rule]:
        """A column changes only by a transition that assigns it."""
        groups: dict[tuple[tuple[str, ...], bool], list[str]] = {}
        for name in self.machine.fields:
            if name in ENGINE_FIELDS or name == self.machine.state.name:
                continue
            groups.setdefault(self._writers(name), []).append(name)
        return [
            self._group(number, writers, tuple(names), quiet=quiet)
            for number, ((writers, quiet), names) in enumerate(groups.items())
        ]

    def _writers(self, name: str) -> tuple[tuple[str, ...], bool]:
        loud = [t for t in self.machine.transitions if _assigns(t, name)]
        names = tuple(t.name for t in loud if not t.quiet)
        return names, any(t.quiet for t in loud)

    def _group(
        self, number: int, writers: tuple[str, ...], names: tuple[str, ...], *, quiet: bool
    ) -> Rule:
        kept = sa.and_(*(self.change.same(name) for name in names))
        ways = [kept]
        if writers:
            by = [sa.literal(name, sa.Text()) for name in writers]
            written = self.dialect.among(self.new("last_transition"), by)
            ways.insert(0, sa.and_(self._raised(), written))
        if quiet:
            ways.insert(0, self.new("revision") == self.old("revision"))
        return Rule(
            f"columns_{number}",
            names,
            _untrue(self.change.text(sa.or_(*ways))),
            f"{', '.join(names)}: not for this transition to write",
        )

    def _once(self) -> list[Rule]:
        names = [column.name for column in self.machine.write_once]
        if not names:
            return []
        kept = sa.and_(
            *(sa.or_(self.old(name).is_(sa.null()), self.change.same(name)) for name in names)
        )
        broken = _untrue(self.change.text(kept))
        return [Rule("write_once", tuple(names), broken, f"{', '.join(names)}: written once")]

    def _clear_only(self) -> list[Rule]:
        names = [column.name for column in self.machine.clear_only]
        if not names:
            return []
        kept = sa.and_(*(sa.or_(self.change.same(n), self._cleared(n)) for n in names))
        broken = _untrue(self.change.text(kept))
        return [Rule("clear_only", tuple(names), broken, f"{', '.join(names)}: only cleared")]

    def _cleared(self, name: str) -> sa.ColumnElement[bool]:
        column = self.new(name)
        cleared: dict[str | int | None, None] = {}
        for assignment in (a for t in self.machine.transitions for a in t.assign):
            match assignment:
                case Put(column=target, value=value) if target.name == name:
                    cleared[value] = None
                case Clear(column=target) if target.name == name:
                    cleared[None] = None
                case _:
                    pass
        return sa.or_(
            *(self.dialect.same(column, constant(value, column.type)) for value in cleared)
        )

    def _insert(self) -> Rule:
        """A row comes to be by a declared creation, at revision 1."""
        lawful = sa.and_(
            self.new("revision") == sa.literal(1, sa.BigInteger()),
            sa.or_(*(self._birth(creation) for creation in self.machine.creations)),
        )
        return Rule(
            "creation", (), _untrue(self.change.text(lawful)), "no declared creation makes this"
        )

    def _birth(self, creation: Creation) -> sa.ColumnElement[bool]:
        given = {assignment.column.name for assignment in creation.assign}
        put = [
            self.dialect.same(self.new(a.column.name), constant(a.value, self._type(a.column)))
            for a in creation.assign
            if isinstance(a, Put)
        ]
        left = [
            self.dialect.same(self.new(f.name), constant(f.default, column_type(f.kind)))
            for f in self.machine.fields.values()
            if f.name not in given
            and f.name not in ENGINE_FIELDS
            and f.name != self.machine.state.name
        ]
        named = self.new("last_transition") == sa.literal(creation.name, sa.Text())
        return sa.and_(named, self.change.state(self.new, (creation.dest,)), *put, *left)

    def _type(self, column: Column) -> sa.types.TypeEngine[Any]:
        return column_type(self.machine.fields[column.name].kind)

    def _slot(self, number: int) -> Slot:
        rule = self.machine.uniqueness[number]
        table = sa.table(
            self.machine.table,
            *(sa.column(f.name, column_type(f.kind)) for f in self.machine.fields.values()),
        ).alias("other")
        key = self.machine.key.name
        there = Scope(self.machine, self.dialect, lambda name: table.c[name])
        here = Scope(self.machine, self.dialect, self.new)
        same = [table.c[c.name] == self.new(c.name) for c in rule.columns]
        taken = sa.exists(
            sa.select(sa.literal_column("1"))
            .select_from(table)
            .where(*same, condition(rule.where, there), table.c[key] != self.new(key))
        )
        return Slot(
            index_name(self.machine, rule.name),
            tuple(dict.fromkeys(c.name for c in (*rule.columns, *columns_in(rule.where)))),
            self.change.text(condition(rule.where, here)),
            self.change.text(taken),
        )


def columns_in(part: Condition) -> list[Column]:
    """Return the columns that a condition reads."""
    return [t for t in terms_in(part) if isinstance(t, Column)]


def _untrue(lawful: str) -> str:
    return f"({lawful}) IS NOT TRUE"


def _assigns(transition: Transition, name: str) -> bool:
    return any(assignment.column.name == name for assignment in transition.assign)
