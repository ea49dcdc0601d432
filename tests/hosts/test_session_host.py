"""The reference host's tour, end to end on each database."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest

from persistence import open_store
from statemachine import TurnCause, TurnResolution
from tests.programs import ROOT

MARK = "  [the successor turn]"
INSPECT = "Inspect the durable workflow state before you explain the outcome or"
CONVERSATION = [
    "--- A launch is reserved within a turn, starts after it, and presents its result.",
    "agent: launch review → Workflow review queued (run review-1).",
    "agent: status → Workflow review is queued (run review-1).",
    "workflow: Read the change.",
    "workflow: The change is fine.",
    "--- A launch fails durably, gets its fallback turn, and is corrected in that very turn.",
    "agent: launch release → Workflow release queued (run release-1).",
    (
        "host: Workflow release failed to start (run release-1). Source: node $launch. Reason:"
        f" scope must be a non-empty string. {INSPECT} start a corrected workflow.{MARK}"
    ),
    "agent: launch release → Workflow release queued (run release-2).",
    "workflow: Read the change.",
    "workflow: Released.",
    "--- A step times out; the workflow's own prompt is the successor turn, so no fallback is.",
    "workflow: Read the change.",
    "(the turn is aborted)",
    f"workflow: That took too long. Read only the summary.{MARK}",
    "workflow: The summary is fine.",
    "--- The agent cancels the run of its own turn, and is given another to explain.",
    "workflow: Read the change.",
    "agent: cancel → Cancelling workflow review…",
    (
        "host: Workflow review ended with state cancelled (run review-3)."
        f" {INSPECT} take any authorized corrective action.{MARK}"
    ),
    "--- A stalled host loses its claim; the next one goes on, and its prompt is the turn.",
    "workflow: Read the change.",
    "(the turn is aborted, the run goes on elsewhere)",
    f"workflow: Go on with the review.{MARK}",
    "workflow: The change is fine, says host-2.",
]


@pytest.fixture
def example() -> Any:
    """The example, as a module."""
    spec = importlib.util.spec_from_file_location("session_host", ROOT / "examples/session_host.py")
    assert spec is not None
    assert spec.loader is not None

    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["session_host"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["session_host"]


def told(message: Any) -> str:
    """Return a message as the tour prints it."""
    return f"{message.text}{'' if message.intent_id is None else MARK}"


def test_the_tour(example: Any, database: str) -> None:
    """Every part tells the same on each database, and no turn is given twice or left out."""
    tour = example.Tour(database)
    tour.run()

    assert [told(message) for message in tour.session.conversation] == CONVERSATION
    assert tour.host.warnings == []


def test_what_the_tour_leaves(example: Any, tmp_path: Any) -> None:
    """Each obligation is resolved, by what the conversation shows."""
    tour = example.Tour(str(tmp_path / "tour.db"))
    tour.run()

    with open_store(str(tmp_path / "tour.db")) as store:
        intents = store.intents.list()
        runs = store.runs.list()
    assert {intent.cause: intent.resolution for intent in intents} == {
        TurnCause.LAUNCH_FAILED: TurnResolution.FALLBACK,
        TurnCause.TIMED_OUT: TurnResolution.WORKFLOW_PROMPT,
        TurnCause.AGENT_CANCELLED: TurnResolution.FALLBACK,
        TurnCause.CLAIM_LOST: TurnResolution.WORKFLOW_PROMPT,
    }
    assert len(intents) == 4
    assert [(run.run_id, run.status.value) for run in runs] == [
        ("release-1", "failed"),
        ("release-2", "done"),
        ("review-1", "done"),
        ("review-2", "done"),
        ("review-3", "cancelled"),
        ("review-4", "done"),
    ]


def test_the_tour_prints(
    example: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the command that the README names."""
    monkeypatch.setattr(sys, "argv", ["session_host.py"])

    example.main()

    assert capsys.readouterr().out.splitlines() == CONVERSATION
