"""The command `sqlatch`."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command and exit.

    0: done; 1: refused; 2: usage; 3: store trouble; 4: some launches failed or were cancelled.
    """
    from persistence.cli.app import run_app  # noqa: PLC0415 - importing this package is cheap

    run_app()
