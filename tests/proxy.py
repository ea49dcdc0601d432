"""A proxy before PostgreSQL that cuts a connection at a chosen moment."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
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
            for source, sink, said in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pump, args=(source, sink), kwargs={"said": said}, daemon=True
                ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, *, said: bool) -> None:
        try:
            while data := source.recv(65_536):
                if said and self._cut_on is not None and self._cut_on in data:
                    self._cut_on = None
                    self.cuts += 1
                    if self._forward_first:
                        _close_for_reading(source)
                        sink.sendall(data)
                        threading.Event().wait(0.3)
                    return
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _close(source)
            _close(sink)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut_all()


def _close_for_reading(end: socket.socket) -> None:
    """Make the client's connection deaf: the server's answer is not passed on."""
    end.shutdown(socket.SHUT_RDWR)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
