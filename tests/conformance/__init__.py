"""Conformance: recorded traces and vectors of an independent implementation.

`traces` reads them, `replay` drives a store through one, and each kind of row brings a module of
its own (`run_ops`, `event_ops`, `intent_ops`, `notification_ops`): the recorded operations as calls
of ours, what is expected of the rows, and the deliberate differences by the names that they have
beside the traces. A further kind is one more of these, and one more line in `replay.KINDS`.

The whole set lies beside the repository, or where `SQLATCH_TRACES` says; `traces/` holds two or
three traces of each family and profile, for a clone without it.
"""
