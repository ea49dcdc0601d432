"""What can happen to a file, a directory, a disk or a process: an error of our own, or success.

And once the cause is gone, the store works again and has kept what it said it had.
"""

from __future__ import annotations

import copy
import os
import pickle
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from persistence import Claim, ManualClock, Store, open_store
from statemachine import Refused
from statemachine.errors import InvalidArgument, SqlatchError, StoreCorrupt, StoreUnavailable
from tests.cases.launches import LEASE, queue, start, take
from tests.children import forked
from tests.conftest import Capabilities
from tests.programs import ROOT

BLOB = "x" * 20_000


def mode(path: Path) -> int:
    """Return the permissions of a path."""
    return stat.S_IMODE(path.stat().st_mode)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file beneath a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def ids(store: Store) -> list[str]:
    """Return the ids of all runs, in their order."""
    return sorted(run.run_id for run in store.runs.list(limit=1_000))


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Each umask in turn, and the former one afterwards."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


# Files


def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """The file, its log and its index 0600; a directory that is made 0700."""
    del umask
    path = tmp_path / "new" / "deeper" / "runs.db"
    with open_store(str(path)) as store:
        queue(store)
        files = {found.name: mode(found) for found in path.parent.iterdir()}

    assert files == dict.fromkeys(("runs.db", "runs.db-wal", "runs.db-shm"), 0o600)
    assert [mode(tmp_path / "new"), mode(tmp_path / "new" / "deeper")] == [0o700, 0o700]


def test_a_directory_that_was_there_is_left_as_it_is(tmp_path: Path) -> None:
    """Its permissions are its owner's matter; the file in it is ours."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)

    with open_store(str(folder / "runs.db")) as store:
        queue(store)

    assert mode(folder) == 0o755
    assert mode(folder / "runs.db") == 0o600


def test_a_file_that_was_there_keeps_its_permissions(tmp_path: Path) -> None:
    """Whoever shares a file on purpose goes on sharing it, its log included."""
    path = tmp_path / "runs.db"
    path.touch()
    path.chmod(0o660)

    with open_store(str(path)) as store:
        queue(store)
        files = {mode(found) for found in tmp_path.iterdir()}

    assert files == {0o660}


def test_sto_03_a_mistyped_path_makes_nothing(tmp_path: Path) -> None:
    """STO-03: without `create` neither the file nor its directory comes to be."""
    for path in (tmp_path / "no such.db", tmp_path / "no" / "such" / "runs.db"):
        for options in ({"create": False}, {"read_only": True}):
            with pytest.raises(StoreUnavailable, match="does not exist"):
                open_store(str(path), **options)  # type: ignore[arg-type]  # flags

    assert list(tmp_path.iterdir()) == []


GARBAGE = {
    "words": b"this is no database\n" * 500,
    "one byte": b"x",
    "zeroes": bytes(10_000),
    "the header alone": b"SQLite format 3\x00",
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_sto_03_garbage_is_named_and_left_alone(tmp_path: Path, garbage: bytes) -> None:
    """STO-03: a file that is no database is not overwritten, whoever asks for what."""
    path = tmp_path / "runs.db"
    path.write_bytes(garbage)

    for options in ({}, {"create": False}, {"read_only": True}):
        with pytest.raises(StoreCorrupt):
            open_store(str(path), **options)  # type: ignore[arg-type]  # flags
        assert contents(tmp_path) == {"runs.db": garbage}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A good database with some runs in it, closed."""
    path = tmp_path / "good" / "runs.db"
    with open_store(str(path)) as store:
        for number in range(20):
            queue(store, f"r{number}")
    return path


@pytest.mark.parametrize("kept", [0.999, 0.9, 0.5, 0.1, 0.02, 0.0001])
def test_sto_03_a_cut_file_is_named_and_left_alone(good: Path, kept: float) -> None:
    """STO-03: a copy that was interrupted is not taken for a database."""
    cut = good.read_bytes()[: int(good.stat().st_size * kept)]
    good.write_bytes(cut)

    for options in ({}, {"create": False}, {"read_only": True}):
        with pytest.raises(StoreCorrupt):
            open_store(str(good), **options)  # type: ignore[arg-type]  # flags
        assert contents(good.parent) == {"runs.db": cut}


def test_a_page_that_is_damaged_is_named_when_it_is_met(good: Path) -> None:
    """A file whose beginning is sound: what is damaged is told apart from what is gone."""
    whole = good.read_bytes()
    good.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))

    with pytest.raises(StoreCorrupt), open_store(str(good)) as store:
        store.runs.list()
    good.write_bytes(whole)

    with open_store(str(good)) as store:
        assert len(store.runs.list()) == 20


def test_a_database_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    """Without `create`, not a byte of it: not even its journal's mode."""
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE theirs (id INTEGER PRIMARY KEY)")
    theirs.close()
    before = contents(tmp_path)

    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(SqlatchError, match="no sqlatch layout"):
            open_store(str(path), **options)  # type: ignore[arg-type]  # flags

    assert contents(tmp_path) == before


def test_a_table_in_the_way_is_named_and_left_alone(tmp_path: Path) -> None:
    """A database that has a table of our name is neither taken over nor half made."""
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY)")
    theirs.close()

    with pytest.raises(SqlatchError, match="runs"):
        open_store(str(path))

    with sqlite3.connect(path) as theirs:
        names = theirs.execute("SELECT name FROM sqlite_master").fetchall()
    theirs.close()
    assert names == [("runs",)]


def test_names_that_no_file_can_have_are_refused(tmp_path: Path) -> None:
    """Neither an error of the driver's nor one of the system's escapes."""
    for url in ("", "a\x00b", "a\ud800", "mysql://x", 5, None, b"runs.db"):
        with pytest.raises(InvalidArgument, match="url"):
            open_store(url)  # type: ignore[arg-type]  # wrong on purpose
    for path in (tmp_path, tmp_path / ("n" * 300)):
        with pytest.raises(StoreUnavailable):
            open_store(str(path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a?b=c", "a#b", "50%25", "ä ö", "a&b", "a\nb", "'", '"', ":x"])
def test_names_that_mean_something_elsewhere_are_names_here(tmp_path: Path, name: str) -> None:
    """A path is no URI: what it names is made, and nothing else."""
    with open_store(f"sqlite:///{tmp_path / name}") as store:
        queue(store)

    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_store_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means what it meant then, also for a thread's later connection."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_store("runs.db") as store:
        queue(store)
        monkeypatch.chdir(tmp_path / "elsewhere")
        seen = forked(lambda: ids(store))

    assert seen == ["r"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


# Permissions


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that an unprivileged child can reach and write."""
    folder = Path(tempfile.mkdtemp(prefix="sqlatch-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_directory_that_may_not_be_written_is_named(open_folder: Path) -> None:
    """Making a store there is refused; once it may be written, the same call succeeds."""
    path = open_folder / "runs.db"

    def child() -> tuple[str, list[str]]:
        open_folder.chmod(0o500)
        with pytest.raises(StoreUnavailable) as error:
            open_store(str(path))
        open_folder.chmod(0o700)
        with open_store(str(path)) as store:
            queue(store)
            return str(error.value), ids(store)

    said, runs = forked(child, unprivileged=True)

    assert "cannot be created" in said
    assert runs == ["r"]


def test_a_store_whose_directory_turns_read_only_says_so_or_works(open_folder: Path) -> None:
    """Its log cannot be made there; once it can, the same store works."""
    path = open_folder / "runs.db"

    def child() -> list[str]:
        with open_store(str(path)) as store:
            queue(store, "before")
        open_folder.chmod(0o500)
        with pytest.raises(StoreUnavailable):
            open_store(str(path))
        with pytest.raises(StoreUnavailable):
            open_store(str(path), read_only=True)
        open_folder.chmod(0o700)
        with open_store(str(path)) as store:
            open_folder.chmod(0o500)
            queue(store, "during")
            open_folder.chmod(0o700)
            queue(store, "after")
            return ids(store)

    assert forked(child, unprivileged=True) == ["after", "before", "during"]


def test_a_file_that_may_not_be_written_is_read_and_written_once_it_may(open_folder: Path) -> None:
    """A write is refused by an error of our own; the very store works again afterwards."""
    path = open_folder / "runs.db"

    def child() -> list[str]:
        with open_store(str(path)) as store:
            queue(store, "before")
        path.chmod(0o400)
        with open_store(str(path)) as store:
            with pytest.raises(StoreUnavailable):
                queue(store, "during")
            for file in open_folder.iterdir():
                file.chmod(0o600)
            queue(store, "after")
            return ids(store)

    assert forked(child, unprivileged=True) == ["after", "before"]


def test_a_file_that_may_not_be_read_is_named(open_folder: Path) -> None:
    """And opened once it may."""
    path = open_folder / "runs.db"

    def child() -> list[str]:
        with open_store(str(path)) as store:
            queue(store, "before")
        path.chmod(0o000)
        with pytest.raises(StoreUnavailable):
            open_store(str(path))
        path.chmod(0o600)
        with open_store(str(path)) as store:
            return ids(store)

    assert forked(child, unprivileged=True) == ["before"]


def test_a_store_opened_to_read_writes_nothing(good: Path) -> None:
    """It shows what is there, refuses to write by our own error, and leaves the file alone."""
    before = good.read_bytes()
    with open_store(str(good), read_only=True) as store:
        assert len(store.runs.list()) == 20
        with pytest.raises(StoreUnavailable):
            queue(store, "new")
        with pytest.raises(StoreUnavailable):
            store.runs.claim_next("w", LEASE)
        assert len(store.runs.list()) == 20

    assert good.read_bytes() == before


# Disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: a disk can be mounted by root alone; see the next test")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(store: Store) -> list[str]:
    """Reserve runs until the store says that it is full; answer those that it took."""
    taken: list[str] = []
    with pytest.raises(StoreUnavailable, match=r"full|I/O"):  # noqa: PT012  # the block is what is tried
        for number in range(1_000):
            fill_one(store, f"r{number}")
            taken.append(f"r{number}")
    return taken


def test_a_full_disk_loses_nothing_that_was_taken(small_disk: Path) -> None:
    """What was answered is there, the refused run is not; with room again the same store works."""
    filler = small_disk / "filler"
    filler.write_bytes(bytes(400_000))
    with open_store(str(small_disk / "runs.db")) as store:
        taken = fill(store)
        refused = f"r{len(taken)}"
        assert store.runs.get(refused) is None
        with pytest.raises(StoreUnavailable), store.transaction():
            fill(store)
        assert ids(store) == sorted(taken)
        filler.unlink()
        fill_one(store, refused)
        claim = store.runs.claim_next("w", LEASE)
        assert isinstance(claim, Claim)
        assert store.runs.finish(claim)
        found = ids(store)

    with open_store(str(small_disk / "runs.db")) as store:
        assert ids(store) == found
    assert taken
    assert found == sorted([*taken, refused])


def fill_one(store: Store, run_id: str) -> None:
    """Reserve a run that takes much room."""
    store.runs.reserve(
        run_id=run_id,
        workflow="w",
        source_ref="r",
        source=None,
        definition_digest="d",
        input=BLOB,
    )


def cap(store: Store, pages: int) -> None:
    """Let the file grow to so many pages more, on this thread's connection."""
    with store.engine.backend.session() as session:
        rows, _ = session.execute("PRAGMA page_count", {})
        session.execute(f"PRAGMA max_page_count = {int(rows[0][0]) + pages}", {})


def test_sto_01_nothing_of_a_block_that_met_a_full_disk_is_stored(tmp_path: Path) -> None:
    """STO-01: SQLite gives the whole transaction up by itself; no later write runs on its own."""
    with open_store(str(tmp_path / "runs.db")) as store:
        queue(store)
        start(store)
        cap(store, 20)
        before = store.runs.list()

        with pytest.raises(StoreUnavailable, match="full"), store.transaction():  # noqa: PT012  # the block is what is tried
            assert store.runs.cancel("r")
            with pytest.raises(StoreUnavailable, match="full"):  # noqa: PT012  # the block is what is tried
                for number in range(20):
                    fill_one(store, f"large{number}")
            with pytest.raises(StoreUnavailable):
                queue(store, "small")

        assert store.runs.list() == before
        assert [event.transition for event in store.runs.history("r")][-1] == "mark_running"
        cap(store, 1_000_000)
        assert store.runs.cancel("r")
        queue(store, "small")


class _CannotUndo:
    """A connection on whose disk no savepoint can be undone."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def execute(self, sql: str, *params: Any) -> sqlite3.Cursor:
        if sql.startswith("ROLLBACK TO"):
            msg = "disk I/O error"
            raise sqlite3.OperationalError(msg)
        return self.driver.execute(sql, *params)


def test_sto_01_a_savepoint_that_cannot_be_undone_takes_its_transaction_along(
    tmp_path: Path,
) -> None:
    """STO-01: else the outer block would keep what the inner one was to undo."""
    with open_store(str(tmp_path / "runs.db")) as store:
        queue(store, "before")
        with store.engine.backend.session() as session:
            session._driver = _CannotUndo(session._driver)  # type: ignore[attr-defined]  # SQLite's sessions have one

        with pytest.raises(StoreUnavailable, match="given up"), store.transaction():  # noqa: PT012  # the block is what is tried
            queue(store, "outer")
            with pytest.raises(KeyError), store.transaction():  # noqa: PT012  # as above
                queue(store, "inner")
                raise KeyError
            with pytest.raises(StoreUnavailable, match="given up"):
                queue(store, "after")

        assert ids(store) == ["before"]
        queue(store, "next")


def test_sto_01_a_single_call_that_meets_a_full_disk_is_undone(tmp_path: Path) -> None:
    """STO-01: the error is told apart from a busy store, which is tried again at once."""
    with open_store(str(tmp_path / "runs.db")) as store:
        cap(store, 30)
        taken = fill(store)
        assert ids(store) == sorted(taken)
        cap(store, 1_000_000)
        fill_one(store, "more")


# Places that go


@pytest.fixture(params=[0, 0.15], ids=["just made", "at rest"])
def rest(request: pytest.FixtureRequest) -> Callable[[Store], None]:
    """Use a store at once, or after its directory has rested: then it alone is looked at."""

    def rested(store: Store) -> None:
        time.sleep(request.param)
        store.runs.list()

    return rested


def test_a_removed_directory_is_told_and_nothing_is_written_into_the_void(
    tmp_path: Path, rest: Callable[[Store], None]
) -> None:
    """A file that has no name any more takes nothing: what it took would be lost without a word."""
    folder = tmp_path / "folder"
    path = folder / "runs.db"
    with open_store(str(path)) as store:
        queue(store, "before")
        rest(store)
        kept = tmp_path / "kept"
        folder.rename(kept)

        with pytest.raises(StoreUnavailable, match="gone"):
            queue(store, "during")
        with pytest.raises(StoreUnavailable, match="gone"), store.transaction():
            queue(store, "during")
        with pytest.raises(StoreUnavailable, match="gone"):
            store.runs.list()

        kept.rename(folder)
        queue(store, "after")
        assert ids(store) == ["after", "before"]
        shutil.rmtree(folder)
        with pytest.raises(StoreUnavailable, match="gone"):
            store.runs.list()
    with open_store(str(path)) as store:
        assert store.runs.list() == []


def test_a_file_that_was_replaced_is_the_store_from_then_on(
    tmp_path: Path, good: Path, rest: Callable[[Store], None]
) -> None:
    """A restored copy under the same name is what everybody sees, this store too."""
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        queue(store, "lost")
        rest(store)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(f"runs.db{suffix}").unlink()
        shutil.copy(good, path)

        queue(store, "new")
        seen = set(ids(store))

    assert seen == {"new", *(f"r{number}" for number in range(20))}


def test_a_file_that_goes_within_a_transaction_takes_it_along(
    tmp_path: Path, rest: Callable[[Store], None]
) -> None:
    """Nothing of the block is answered as stored."""
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        rest(store)
        with pytest.raises(StoreUnavailable, match="gone"), store.transaction():  # noqa: PT012  # the block is what is tried
            queue(store, "during")
            path.rename(tmp_path / "kept.db")
            queue(store, "lost")
        (tmp_path / "kept.db").rename(path)

        assert store.runs.list() == []


# Processes


def test_a_forks_child_and_its_parent_share_the_store(
    database: str, capabilities: Capabilities, clock: ManualClock
) -> None:
    """Each has connections of its own; neither spoils the other's."""
    with open_store(database, clock=clock) as store:
        queue(store, "parent")
        claim = take(store, "parent")

        def reading() -> tuple[list[str], bool]:
            queue(store, "child")
            refused = store.runs.claim("parent", runner_id="child", lease=LEASE)
            with store.transaction():
                queue(store, "whole")
            return ids(store), isinstance(refused, Refused)

        if capabilities.reopens:
            seen, refused = forked(reading)
            assert (sorted(seen), refused) == (["child", "parent", "whole"], True)
            forked(store.close)
            assert store.runs.mark_running(claim)
            assert ids(store) == ["child", "parent", "whole"]
        else:
            with pytest.raises(AssertionError, match=r"StoreUnavailable.*a fork's child"):
                forked(reading)
            assert store.runs.mark_running(claim)


def test_a_fork_within_a_transaction_leaves_it_to_the_parent(
    database: str, capabilities: Capabilities
) -> None:
    """The child sees what is committed, and cannot commit for its parent."""
    if not capabilities.reopens:
        pytest.skip("a database in memory is not the child's")
    with open_store(database) as store:
        queue(store, "before")
        with store.transaction():
            queue(store, "parent")
            seen = forked(lambda: ids(store))
        after = ids(store)

    assert seen == ["before"]
    assert after == ["before", "parent"]


def test_a_store_refuses_to_be_pickled_or_copied(store: Store) -> None:
    """FSM-05: it holds connections, and says so; so do the faces over it."""
    for whole in (store, store.runs, store.engine):
        for attempt in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="open it again"):
                attempt(whole)
    with pytest.raises(TypeError, match="open it again"):
        copy.copy(store)


def test_another_opening_keeps_the_locks(tmp_path: Path) -> None:
    """A store that is opened beside another of this process lets go of none of its locks.

    Else the process that closes its own next takes itself for the last, and removes the log.
    """
    path = tmp_path / "runs.db"
    with open_store(str(path)) as first:
        queue(first, "before")
        open_store(str(path)).close()
        script = (
            "import sys; from persistence import open_store;"
            " open_store(sys.argv[1]).runs.pause('before')"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, cwd=ROOT)
        queue(first, "after")

        assert path.with_name("runs.db-wal").exists()
        with open_store(str(path)) as third:
            assert sorted(ids(third)) == ["after", "before"]
