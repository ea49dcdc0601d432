"""Typed faces of the shipped lifecycles: each operation once, without I/O."""
