"""Programs from outside that read what we write; where one is missing, a test is skipped loudly."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree as ET

import pytest
from attrs import frozen

ROOT = Path(__file__).parent.parent
REQUIRED = "SQLATCH_REQUIRE_PROGRAMS"
MARK = "*"
_MERMAID = ROOT / "build" / "mermaid"
_SVG = "{http://www.w3.org/2000/svg}"


@frozen
class Shown:
    """What a program shows of a diagram.

    Attributes:
        nodes: The whole text in each node, a line apart; marks of start and end are left out.

        edges: Text of source and destination, and the label; `*` stands for a mark.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str, str], ...]


def missing(program: str) -> NoReturn:
    """Skip the test, or fail it where everything must be there."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"MISSING: {program}")
    pytest.skip(f"NOT TESTED, MISSING: {program}")


def mermaid(*texts: str) -> list[Shown]:
    """Return what Mermaid's own parser makes of diagrams."""
    node = shutil.which("node")
    if node is None or not (_MERMAID / ".installed").exists():
        missing("Node.js and the npm package mermaid (`make mermaid`)")
    done = subprocess.run(
        [node, str(_MERMAID / "parse.mjs")],
        input=json.dumps(texts),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return [_shown(parsed) for parsed in json.loads(done.stdout)]


def _shown(parsed: dict[str, Any]) -> Shown:
    if "error" in parsed:
        pytest.fail(parsed["error"])
    texts = {
        node["id"]: MARK
        if node["shape"] in ("stateStart", "stateEnd")
        else "\n".join([*node["label"], *node["description"]])
        for node in parsed["nodes"]
    }
    return Shown(
        nodes=tuple(text for text in texts.values() if text != MARK),
        edges=tuple(
            (texts[edge["start"]], texts[edge["end"]], edge["label"]) for edge in parsed["edges"]
        ),
    )


def graphviz(text: str) -> Shown:
    """Return what Graphviz draws of a graph."""
    dot = shutil.which("dot")
    if dot is None:
        missing("Graphviz (Debian package graphviz)")
    done = subprocess.run(
        [dot, "-Tsvg"], input=text, capture_output=True, check=True, encoding="utf-8"
    )
    # Graphviz declares entities of its own, which an XML parser need not know.
    drawn = ET.fromstring(re.sub("<!DOCTYPE.*?>", "", done.stdout, flags=re.DOTALL))
    texts: dict[str, str] = {}
    edges = []
    for group in drawn.iter(f"{_SVG}g"):
        title = group.findtext(f"{_SVG}title", "")
        lines = "\n".join(_plain(line) for line in group.findall(f"{_SVG}text"))
        if group.get("class") == "node":
            texts[title] = MARK if title == "start" else lines
        elif group.get("class") == "edge":
            source, dest = title.split("->")
            edges.append((source, dest, lines))
    return Shown(
        nodes=tuple(text for text in texts.values() if text != MARK),
        edges=tuple((texts[source], texts[dest], label) for source, dest, label in edges),
    )


def _plain(text: ET.Element) -> str:
    """Return a line of text; Graphviz keeps runs of spaces by no-break spaces."""
    return (text.text or "").replace("\xa0", " ")
