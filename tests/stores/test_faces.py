"""The faces: each function takes exactly what its operation takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from persistence import Store
from persistence.stores.face import Face
from persistence.stores.intents import Intents
from persistence.stores.notifications import Notifications
from persistence.stores.rows import Rows
from persistence.stores.runs import Runs

FACES: list[type[Face[Any]]] = [Runs, Intents, Notifications, Rows]
FUNCTIONS = [
    pytest.param(function, id=f"{face.__name__}.{name}")
    for face in FACES
    for name, function in vars(face).items()
    if hasattr(function, "__wrapped__")
]


def _taken(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    """Return what a function takes after its first parameter, as Python itself sees it."""
    _, *params = inspect.signature(function, follow_wrapped=False).parameters.values()
    return [(param.name, param.kind, param.default) for param in params]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_of_a_face_takes_what_its_operation_takes(function: Callable[..., Any]) -> None:
    """By the same names and in the same way; what is left out is the same."""
    assert _taken(function) == _taken(inspect.unwrap(function))


def test_a_wrong_argument_is_told_by_the_functions_name(store: Store) -> None:
    """As of any function of Python's."""
    wrong: dict[str, Any] = {"leese": 1}
    with pytest.raises(TypeError, match=r"renew\(\) got an unexpected keyword argument 'leese'"):
        store.runs.renew(**wrong)
    with pytest.raises(TypeError, match=r"renew\(\) missing 1 required positional .* 'claim'"):
        store.runs.renew(**dict[str, Any]())
