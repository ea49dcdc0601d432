"""Alembic's entry: runs the migrations on the connection and in the transaction it is given."""

from __future__ import annotations

from alembic import context

from persistence.migrations.upgrade import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
