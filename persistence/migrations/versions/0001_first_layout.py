"""The first released layout."""

from __future__ import annotations

from alembic import context

from persistence.layout import install
from persistence.migrations.frozen import frozen

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, indexes and triggers in an empty database."""
    attributes = context.config.attributes
    dialect = attributes["dialect"]
    install(attributes["session"], frozen(1, dialect.name), dialect, version=1)


def downgrade() -> None:
    """Refuse: there is no earlier layout.

    Raises:
        NotImplementedError: Always.
    """
    msg = "there is no layout before the first; restore a backup"
    raise NotImplementedError(msg)
