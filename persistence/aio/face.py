"""How an asyncio face runs operations that are written without I/O."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, Generic, ParamSpec, TypeVar

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from persistence.aio.engine import AsyncEngine
    from persistence.operation import Operation

_O = TypeVar("_O", covariant=True)  # noqa: PLC0105 - short, as the others
_P = ParamSpec("_P")
_T = TypeVar("_T")


@frozen
class AsyncFace(Generic[_O]):
    """An asyncio face over a set of operations."""

    _operations: _O
    _engine: AsyncEngine


def single(
    operation: Callable[Concatenate[_O, _P], Operation[_T]],
) -> Callable[Concatenate[AsyncFace[_O], _P], Awaitable[_T]]:
    """Run an operation statement by statement, or in the task's open transaction."""

    @functools.wraps(operation)
    async def run(face: AsyncFace[_O], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await face._engine.run(operation(face._operations, *args, **kwargs))  # noqa: SLF001 - its own

    return run


def whole(
    operation: Callable[Concatenate[_O, _P], Operation[_T]],
) -> Callable[Concatenate[AsyncFace[_O], _P], Awaitable[_T]]:
    """Run an operation as one transaction."""

    @functools.wraps(operation)
    async def run(face: AsyncFace[_O], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        made = operation(face._operations, *args, **kwargs)  # noqa: SLF001 - its own
        return await face._engine.run_whole(made, _named(kwargs))  # noqa: SLF001 - its own

    return run


def selecting(
    operation: Callable[Concatenate[_O, _P], Operation[_T]],
) -> Callable[Concatenate[AsyncFace[_O], _P], Awaitable[_T]]:
    """Run an operation that names no row; one transaction under a `call` without `run_id`."""

    @functools.wraps(operation)
    async def run(face: AsyncFace[_O], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        engine = face._engine  # noqa: SLF001 - its own
        alone = kwargs.get("call") is None or kwargs.get("run_id") is not None
        made = operation(face._operations, *args, **kwargs)  # noqa: SLF001 - its own
        return await (engine.run(made) if alone else engine.run_whole(made, _named(kwargs)))

    return run


def _named(given: Mapping[str, object]) -> str | None:
    call = given.get("call")
    return call if isinstance(call, str) else None
