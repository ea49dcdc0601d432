"""Durable state machines, declared as data: pure, without a database."""
