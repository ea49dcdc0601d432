"""How a notebook shows a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statemachine.machine import Machine


def mimebundle(machine: Machine, include: object = None, exclude: object = None) -> dict[str, str]:
    """Return the diagram as an SVG picture and as Mermaid in Markdown.

    Args:
        machine: The machine.

        include: The types that the notebook wants; it drops the others itself.

        exclude: The types that it does not want; likewise.
    """
    # Who only runs a machine need not load what draws it.
    from statemachine.render import to_mermaid, to_svg  # noqa: PLC0415  # reason above

    del include, exclude
    return {
        "image/svg+xml": to_svg(machine),
        "text/markdown": f"```mermaid\n{to_mermaid(machine)}```\n",
    }
