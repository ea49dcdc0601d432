"""A proxy before PostgreSQL that cuts a connection at a chosen moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from attrs import define, field


@define(eq=False)
class Proxy:
    """Forwards connections to a server on this machine, until told to cut one.

    Attributes:
        target: The server's URL.
    """

    target: str
    _listener: socket.socket = field(init=False)
    _pairs: list[tuple[socket.socket, socket.socket]] = field(factory=list, init=False)
    _cut_on: bytes | None = field(default=None, init=False)
    _forward_first: bool = field(default=False, init=False)
    cuts: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The server's URL, through the proxy."""
        parts = urlsplit(self.target)
        user = f"{parts.username}@" if parts.username else ""
        port = self._listener.getsockname()[1]
        return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    def cut_on(self, needle: bytes, *, forward_first: bool) -> None:
        """Cut the connection whose client next says `needle`.

        Args:
            needle: Part of a statement.

            forward_first: Whether the server still hears it; its answer never arrives.
        """
        self._forward_first = forward_first
        self._cut_on = needle

    def cut_all(self) -> None:
        """Cut every connection, idle ones too."""
        for pair in self._pairs:
            for end in pair:
                _close(end)
        self._pairs.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            parts = urlsplit(self.target)
            server = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 5432))
            self._pairs.append((client, server))
            deaf, answered = threading.Event(), threading.Event()
            for pump in (self._say, self._answer):
                threading.Thread(
                    target=pump, args=(client, server, deaf, answered), daemon=True
                ).start()

    def _say(
        self,
        client: socket.socket,
        server: socket.socket,
        deaf: threading.Event,
        answered: threading.Event,
    ) -> None:
        """Pass on what the client says, up to the cut."""
        with _closing(client, server):
            while data := client.recv(65_536):
                if self._cut_on is not None and self._cut_on in data:
                    self._cut_on = None
                    self.cuts += 1
                    if self._forward_first:
                        deaf.set()
                        server.sendall(data)
                        answered.wait(30)
                    return
                server.sendall(data)

    def _answer(
        self,
        client: socket.socket,
        server: socket.socket,
        deaf: threading.Event,
        answered: threading.Event,
    ) -> None:
        """Pass on what the server answers, unless the client is not to hear it."""
        with _closing(client, server):
            while data := server.recv(65_536):
                if deaf.is_set():
                    answered.set()
                    return
                client.sendall(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut_all()


@contextmanager
def _closing(*ends: socket.socket) -> Iterator[None]:
    """Close both ends with the block, which a closed one ends."""
    try:
        with suppress(OSError):
            yield
    finally:
        for end in ends:
            _close(end)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
