"""A table of orders that a user made, and SQL that is run past the store."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import sqlalchemy as sa

from persistence.backends.sqlite import path_of

BY_HAND = """
CREATE TABLE orders (
    id {identity},
    order_id VARCHAR(600) NOT NULL UNIQUE,
    state TEXT NOT NULL,
    basket TEXT NOT NULL,
    reminders {whole} NOT NULL DEFAULT 0,
    paid_at BIGINT,
    parcel TEXT,
    note TEXT,
    colour TEXT NOT NULL DEFAULT 'blue'
)
"""
ROWS = (
    """INSERT INTO orders (order_id, state, basket, note)
        VALUES ('old', 'pending', 'b-1', 'mine'), ('gone', 'cancelled', 'b-1', NULL)""",
    """INSERT INTO orders (order_id, state, basket, paid_at, parcel)
        VALUES ('sent', 'shipped', 'b-1', 5, 'p-1')""",
)


def on_server(url: str) -> bool:
    """Tell whether a URL is one of PostgreSQL."""
    return url.startswith("postgresql")


def by_hand(url: str) -> str:
    """Return handwritten DDL: not STRICT, with a key of its own and columns of its own."""
    if on_server(url):
        return BY_HAND.format(identity="serial PRIMARY KEY", whole="bigint")
    return BY_HAND.format(identity="INTEGER PRIMARY KEY", whole="INTEGER")


def engine_of(url: str) -> sa.Engine:
    """Return SQLAlchemy's engine of a database."""
    if on_server(url):
        return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    return sa.create_engine(f"sqlite:///{path_of(url)}")


def make_by_hand(url: str) -> None:
    """Make the table by handwritten DDL."""
    run(url, by_hand(url))


def make_by_metadata(url: str) -> None:
    """Make the table as a SQLAlchemy model would."""
    metadata = sa.MetaData()
    sa.Table(
        "orders",
        metadata,
        sa.Column("order_id", sa.String, primary_key=True),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("basket", sa.String, nullable=False, index=True),
        sa.Column("paid_at", sa.BigInteger),
        sa.Column("parcel", sa.Text),
        sa.Column("note", sa.String(50)),
        sa.Column("colour", sa.String, nullable=False, server_default="blue"),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("made_at", sa.DateTime(timezone=True), server_default=sa.func.now()),
    )
    engine = engine_of(url)
    metadata.create_all(engine)
    engine.dispose()


def run(url: str, *statements: str) -> None:
    """Run SQL, each statement for itself, or several in one text."""
    if on_server(url):
        with psycopg.connect(url, autocommit=True) as server:
            for statement in statements:
                server.execute(statement.encode())
        return
    file = sqlite3.connect(path_of(url), isolation_level=None)
    try:
        for statement in statements:
            file.executescript(statement)
    finally:
        file.close()


def asked(url: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    if on_server(url):
        with psycopg.connect(url) as server:
            return server.execute(query.encode()).fetchall()
    file = sqlite3.connect(path_of(url))
    try:
        return file.execute(query).fetchall()
    finally:
        file.close()
