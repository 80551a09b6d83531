"""The mark of a database whose installation is moved to another one: no admin works on it."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.database.tables import setting

MARK = "moved"  # name of the setting


class DatabaseMove(msgspec.Struct, frozen=True, kw_only=True):
    """Where the installation goes, or went."""

    to: str  # URL of the new database, without its password
    token: str  # of this move; the new database has it as well
    at: int  # when it began, by the clock of the old database
    done: bool = False  # the new database has everything; only then may admins start there

    @property
    def sentence(self) -> str:
        """Why no admin works here, and what to do."""
        if self.done:
            return (
                f"this installation was moved to {self.to}: set TICKWHEEL_DATABASE_URL to that"
                " database and start again"
            )
        return (
            f"this installation is being moved to {self.to}: wait until `tickwheel backup"
            " --move-to` has ended; if it was cut off, run it again, or give the move up with"
            " `tickwheel backup --cancel-move`"
        )


_VALUE = sa.select(setting.c.value).where(setting.c.name == MARK)


def read_move(conn: sa.Connection) -> DatabaseMove | None:
    """The move of this database; None: it is where the installation is. One look-up."""
    value = conn.execute(_VALUE).scalar_one_or_none()
    return None if value is None else msgspec.json.decode(value, type=DatabaseMove)


def mark_move(conn: sa.Connection, move: DatabaseMove | None) -> None:
    """Mark the database, or take the mark away (None)."""
    conn.execute(sa.delete(setting).where(setting.c.name == MARK))
    if move is not None:
        conn.execute(sa.insert(setting).values(name=MARK, value=msgspec.json.encode(move).decode()))
