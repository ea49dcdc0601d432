"""From any released layout to this version's, by Alembic; a released layout never changes."""

from __future__ import annotations

from persistence.migrations.upgrade import Migrated, migrate

__all__ = ["Migrated", "migrate"]
