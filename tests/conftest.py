"""Fixtures that all tests share: folders of the tool that are not the user's, and programs that a test needs."""

from __future__ import annotations

import gc
import os
import platform
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.kept import saved_models
from tests.samples import Published, Sample, publish_samples, read_samples
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

REPOSITORY = Path(__file__).resolve().parent.parent

pytest_plugins = ["tests.buckets", "tests.order", "tests.sweeps", "tests.wording"]

# Thousands of collected tests are objects that live to the end: to look through them again and again would take a fifth of
# the time of a collection.
gc.set_threshold(100_000, 50, 100)

# How long an example takes is the machine's doing: no test depends on it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# A shell starts background jobs with SIGINT ignored, and programs inherit that: the tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


# TensorFlow takes oneDNN's kernels on CPUs with AVX-512, and those give other answers than its own: a softmax over an
# infinity has zeros beside NaN. Answers that tests compare with must not hang on the machine (frontends/toolchain/worker.py).
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"

# Several tests run at a time: each disturbs what another one measures.
os.environ["TFAOT_ACCEPT_NOISE"] = "1"


# Tests, builds and digests read these folders whole: what one test leaves in them, another one would find.
_READ_WHOLE = ("examples", "recipes", "templates")
_FILES_BEFORE = pytest.StashKey[frozenset[Path]]()


def _files() -> frozenset[Path]:
    return frozenset(path for folder in _READ_WHOLE for path in (REPOSITORY / folder).rglob("*"))


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_FILES_BEFORE] = _files()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run fails if a test has written into the source."""
    before = session.config.stash.get(_FILES_BEFORE, None)
    if before is not None and (new := _files() - before):
        told = "\n".join(f"  {path.relative_to(REPOSITORY)}" for path in sorted(new))
        sys.stderr.write(f"\nERROR: files in the source that the tests have left:\n{told}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


class _Failures:
    """Prints the name of a test when it fails: a run that is ended from outside never comes to its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and (terminal := self._config.pluginmanager.get_plugin("terminalreporter")):
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config))


@pytest.fixture(autouse=True)
def _no_user_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or writes the user's own folders, whatever it does with the environment."""
    empty = tmp_path_factory.getbasetemp() / "no-home"
    empty.mkdir(exist_ok=True)
    # pytest deletes the folders of earlier runs before it ends: one that a test starts would delete hundreds of thousands
    # of files of the run before, within the time of that test.
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(empty))
    monkeypatch.setenv("TFAOT_HOME", str(empty / "tfaot"))
    monkeypatch.setenv("CONAN_HOME", str(empty / "conan"))
    yield
    # The folders of a test that passes are deleted: to later tests its files of the tool would be changed ones.
    for path in [path for path in resources._stamps if path.is_relative_to(empty.parent)]:
        del resources._stamps[path]


@pytest.fixture
def tfaot_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TFAOT_HOME of the test's own, empty at first."""
    home = tmp_path / "home"
    monkeypatch.setenv("TFAOT_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def shared_home_folder() -> Path:
    """The TFAOT_HOME that slow tests share and that outlives the run: toolchains and builds are made once.

    TFAOT_TEST_HOME names another place.
    """
    home = Path(os.environ.get("TFAOT_TEST_HOME") or REPOSITORY / "build" / "test-home")
    home.mkdir(parents=True, exist_ok=True)
    return home.resolve()


@pytest.fixture
def shared_home(shared_home_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`shared_home_folder`, with TFAOT_HOME set to it for this test and what it starts."""
    monkeypatch.setenv("TFAOT_HOME", str(shared_home_folder))
    return shared_home_folder


@pytest.fixture(scope="session")
def published(shared_home_folder: Path) -> Published:
    """Both sample models, built, published and installed once for all workers. For slow tests."""
    return publish_samples(shared_home_folder)


@pytest.fixture(scope="session")
def samples(published: Published) -> dict[str, Sample]:
    """The sample models by name, with held-out data and TensorFlow's answers for it."""
    return read_samples(published)


@pytest.fixture(scope="session")
def require_program() -> Callable[[str], str]:
    """`require_program("valgrind")`: the program's path. Where it is missing the test fails in CI and skips elsewhere."""

    def require(name: str) -> str:
        found = shutil.which(name)
        if found:
            return found
        _missing(name)

    return require


@pytest.fixture(scope="session")
def require_header() -> Callable[[str], None]:
    """`require_header("tbb/parallel_for.h")`: of C++. Where it is missing the test fails in CI and skips elsewhere."""

    def require(name: str) -> None:
        if not any((Path("/usr") / place / name).is_file() for place in ("include", "local/include")):
            _missing(f"<{name}>")

    return require


@pytest.fixture
def without_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with all programs but the emulators."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("qemu-") and not link.is_symlink():
                link.symlink_to(program)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture(scope="session")
def require_sanitizers(require_program: Callable[[str], str]) -> Callable[[str], Path]:
    """`require_sanitizers("clang++")`: the library with AddressSanitizer of a compiler that has all sanitizers.

    Where it is missing: as above.
    """

    def require(compiler: str) -> Path:
        name = f"libclang_rt.asan-{platform.machine()}.so" if "clang" in compiler else "libasan.so"
        found = Path(run([require_program(compiler), f"-print-file-name={name}"], timeout=60).stdout.strip())
        return found if found.is_absolute() else _missing(f"{name}, of {compiler},")

    return require


def _missing(what: str) -> NoReturn:
    reason = f"{what} is not installed (tools/install_system_packages.sh)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def toolchain_python(shared_home_folder: Path) -> Path:
    """The Python of the default toolchain, made in the shared home on demand."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    return ensure(DEFAULT_VERSION, folders=folders, progress=Silent()).python


@pytest.fixture(scope="session")
def models(shared_home_folder: Path, toolchain_python: Path) -> Mapping[str, Path]:
    """The small SavedModels of tests/models/make_models.py by name. Read only: copy what is to be changed."""
    folder = saved_models(shared_home_folder, REPOSITORY / "tests" / "models" / "make_models.py", toolchain_python)
    return {path.name: path for path in folder.iterdir() if (path / "saved_model.pb").is_file()}
