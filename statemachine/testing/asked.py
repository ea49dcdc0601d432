"""One call of a machine test, and several at once, as a story tells them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from statemachine.testing.story import written

if TYPE_CHECKING:
    from statemachine.outcome import Actor


@frozen(repr=False)
class Asked:
    """One call, as an actor makes it.

    Attributes:
        kind: What it makes: a creation, a transition, or the transition of a selection.

        actor: Who.

        name: Name of the creation, transition or selection.

        values: Python values, by parameter.

        key: The row; None where the call does not say.

        call: The call's id; None: the store mints one.

        exclude: For a selection: the keys that it passes over.

        after: How long the actor waits before.

        told: The parameters that a story tells.

    """

    kind: Literal["create", "apply", "next"]
    actor: Actor
    name: str
    values: dict[str, object]
    key: str | None = None
    call: str | None = None
    exclude: tuple[str, ...] = ()
    after: timedelta = timedelta()
    told: tuple[str, ...] = field(default=(), eq=False)

    def __str__(self) -> str:
        later = f"{written(self.after)} later, " if self.after else ""
        return f"{later}{self.actor.name}: {self.name}{self.about()}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_pretty_(self, printer: Any, cycle: object) -> None:
        """Print it so for Hypothesis, too, which knows attrs classes."""
        del cycle
        printer.text(repr(self))

    def about(self) -> str:
        """Return the row and what was given, as a story tells them."""
        told = [f"{name}={written(self.values[name])}" for name in self.told]
        told += [f"call={self.call!r}"] if self.call is not None else []
        told += [f"exclude={', '.join(self.exclude)}"] if self.exclude else []
        key = "" if self.key is None else f" {written(self.key)}"
        return key + (f" ({', '.join(told)})" if told else "")


@frozen(repr=False)
class Together:
    """Calls of one transition by one actor, on different rows.

    Attributes:
        name: Name of the transition.

        calls: In the order given.
    """

    name: str
    calls: tuple[Asked, ...]

    def __repr__(self) -> str:
        return f"<{'; '.join(map(str, self.calls)) or self.name}>"

    def _repr_pretty_(self, printer: Any, cycle: object) -> None:
        """Print it so for Hypothesis, too."""
        del cycle
        printer.text(repr(self))
