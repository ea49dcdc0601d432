"""A machine in Promela, for the model checker Spin: a second opinion on what `explore` says.

It is written from the declaration alone, and shares neither the search nor the view of rows with
the exploration.
"""

from __future__ import annotations

from statemachine.promela.model import to_promela

__all__ = ["to_promela"]
