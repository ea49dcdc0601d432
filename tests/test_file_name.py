"""The name of a SQLite file: whatever happens to it is seen at the very next call.

While its directory rests, the directory alone is asked. Here it is so for a minute, not for 10 ms:
what happens must be seen in it.
"""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from persistence import open_store
from persistence.backends import sqlite_name
from persistence.backends.sqlite_name import Name
from statemachine.errors import StoreUnavailable
from tests.cases.launches import queue
from tests.children import forked

_RESTED_S = 0.12
"""As long as a directory must not have changed to be asked instead of the name."""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file in a directory of its own; it is held open, as SQLite does, or a next one was it."""
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True)
    (folder / "file").write_text("first")
    with (folder / "file").open():
        yield folder / "file"


@pytest.fixture
def long_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after the directories further above once a minute."""
    monkeypatch.setattr(sqlite_name, "_ABOVE_S", 60.0)


def rested(path: Path) -> Name:
    """Return a name whose directory has rested."""
    name = Name.of(str(path))
    time.sleep(_RESTED_S)
    assert name.stands()
    return name


def looked_up(name: Name, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Tell whether the path itself is looked up."""
    looks: list[str] = []
    real = os.stat

    def look(path: str) -> os.stat_result:
        looks.append(path)
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", look)
        assert name.stands()
    return bool(looks)


def ticking(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the clock of the file system tick every so many nanoseconds."""
    real = os.fstat

    def fstat(descriptor: int) -> object:
        found = real(descriptor)
        told = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**told | {"st_ctime_ns": found.st_ctime_ns // step * step})

    monkeypatch.setattr(os, "fstat", fstat)


def descriptors() -> set[Path]:
    """Return what this process has open."""
    return set(Path("/proc/self/fd").iterdir())


def still(name: Name) -> bool:
    """Tell whether a name is still the file's; one that is gone is not."""
    try:
        return name.stands()
    except StoreUnavailable:
        return False


def _replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("second")
    other.replace(path)


def _made_anew(path: Path) -> None:
    path.unlink()
    path.write_text("second")


def _linked_elsewhere(path: Path) -> None:
    other = path.parent.parent / "elsewhere"
    other.write_text("second")
    path.unlink()
    path.symlink_to(other)


def _folder_made_anew(path: Path) -> None:
    path.parent.rename(path.parent.with_name("aside"))
    path.parent.mkdir()
    path.write_text("second")


HAPPENINGS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "renamed": lambda path: path.rename(path.with_name("aside")),
    "replaced": _replaced,
    "removed and made anew": _made_anew,
    "a link to another file": _linked_elsewhere,
    "its directory renamed": lambda path: path.parent.rename(path.parent.with_name("aside")),
    "its directory removed": lambda path: shutil.rmtree(path.parent),
    "its directory made anew": _folder_made_anew,
}


@pytest.mark.usefixtures("long_trusted")
@pytest.mark.parametrize("happens", HAPPENINGS.values(), ids=HAPPENINGS)
@pytest.mark.parametrize("at_rest", [True, False], ids=["at rest", "just made"])
def test_what_happens_to_a_file_is_seen_at_once(
    path: Path, happens: Callable[[Path], object], *, at_rest: bool
) -> None:
    """Whether its directory was at rest or has changed a moment ago."""
    name = rested(path) if at_rest else Name.of(str(path))

    happens(path)

    assert not still(name)
    assert not still(name)


@pytest.mark.usefixtures("long_trusted")
def test_a_directory_at_rest_is_asked_instead_of_the_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing is gained by it; and what is written into the file leaves it at rest."""
    name = rested(path)
    assert not looked_up(name, monkeypatch)

    path.write_text("more")
    assert not looked_up(name, monkeypatch)

    path.with_name("beside").write_text("x")
    assert looked_up(name, monkeypatch)


@pytest.mark.usefixtures("long_trusted")
def test_no_change_hides_in_the_tick_of_another(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of a file system ticks, every 10 ms at most: two changes may have one time."""
    ticking(monkeypatch, 10_000_000)
    for number in range(100):
        name = Name.of(str(path))
        assert name.stands()
        _replaced(path)
        assert not name.stands(), number


@pytest.mark.usefixtures("long_trusted")
def test_what_happens_behind_a_link_is_seen_at_once(path: Path) -> None:
    """The link's own directory does not tell of it; nor does that of a linked directory."""
    to_file = path.parent.parent / "link"
    to_file.symlink_to(path)
    to_folder = path.parent.parent / "folders"
    to_folder.symlink_to(path.parent)
    names = [rested(to_file), rested(to_folder / path.name)]

    _replaced(path)

    assert [name.stands() for name in names] == [False, False]


@pytest.mark.usefixtures("long_trusted")
def test_a_file_system_that_counts_whole_seconds_is_not_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes of one second would have the same time there."""
    ticking(monkeypatch, 1_000_000_000)

    assert looked_up(rested(path), monkeypatch)


@pytest.mark.usefixtures("long_trusted")
def test_a_directory_that_may_not_be_opened_is_not_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where no descriptor is left: the name itself is looked up, and nothing fails."""

    def forbidden(*_: object) -> int:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", forbidden)
        assert looked_up(rested(path), monkeypatch)


def test_what_happens_further_above_is_seen_after_10_ms(path: Path) -> None:
    """The directory itself knows nothing of it."""
    name = rested(path)
    above = path.parent.parent

    above.rename(above.with_name("aside"))
    time.sleep(0.01)
    assert not still(name)

    path.parent.mkdir(parents=True)
    path.write_text("second")
    assert not name.stands()


def test_a_file_that_was_replaced_long_ago_is_another(path: Path) -> None:
    """Its directory rests again, and tells nothing; each call is told so."""
    name = rested(path)

    _replaced(path)
    time.sleep(_RESTED_S)

    assert [name.stands(), name.stands()] == [False, False]


def test_another_directory_with_the_same_file_is_watched_or_not_trusted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked before has another name now."""
    name = rested(path)
    aside = path.parent.with_name("aside")
    path.parent.rename(aside)
    path.parent.mkdir()
    path.hardlink_to(aside / path.name)
    time.sleep(_RESTED_S)
    monkeypatch.setattr(sqlite_name, "_ABOVE_S", 60.0)
    assert name.stands()

    _replaced(path)

    assert not name.stands()


def test_a_clock_that_was_set_back_only_costs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that lies ahead is none that is long ago."""
    name = Name.of(str(path))
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600_000_000_000)
    time.sleep(_RESTED_S)

    assert looked_up(name, monkeypatch)


def test_a_closed_name_is_nobodys(path: Path) -> None:
    """It is told as such to a thread that is still at work, and holds no descriptor."""
    before = descriptors()
    names = [rested(path), Name.of(str(path))]

    for name in (*names, *names):
        name.close()
    path.unlink()

    assert [name.stands() for name in names] == [False, False]
    assert descriptors() == before


def test_a_store_leaves_no_descriptor(tmp_path: Path) -> None:
    """Neither of the file, nor of its directory, nor of a file that was there before."""
    before = descriptors()
    path = tmp_path / "runs.db"
    with open_store(str(path)) as store:
        queue(store, "first")
        time.sleep(_RESTED_S)
        queue(store, "second")
        for suffix in ("", "-wal", "-shm"):
            path.with_name(f"runs.db{suffix}").unlink()
        with pytest.raises(StoreUnavailable, match="gone"):
            store.runs.list()

    assert descriptors() == before


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")  # so says Python 3.13
def test_a_store_that_is_dropped_leaves_no_descriptor(tmp_path: Path) -> None:
    """As a connection of the driver's, it lets go of what it holds when nobody holds it."""
    before = descriptors()
    for _ in range(3):
        store = open_store(str(tmp_path / "runs.db"))
        store.runs.list()
        time.sleep(_RESTED_S)
        store.runs.list()
        del store
        gc.collect()

    assert descriptors() == before


def test_a_forks_child_keeps_no_directory_open(tmp_path: Path) -> None:
    """What it has inherited goes with the store, which it closes or drops."""

    def held() -> int:
        store.runs.list()
        store.close()
        gc.collect()
        places = (os.path.realpath(f"/proc/self/fd/{found.name}") for found in descriptors())
        return sum(place == str(tmp_path) for place in places)

    with open_store(str(tmp_path / "runs.db")) as store:
        time.sleep(_RESTED_S)
        store.runs.list()
        assert forked(held) == 0
        store.runs.list()
