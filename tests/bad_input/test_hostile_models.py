"""SavedModels that try to reach outside: what a signature runs is refused, and nothing else of the file ever runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

REFUSED = {
    "hostile_signature": ["WriteFile", "reads or writes files"],
    "hostile_saver_function": ["SaveV2", "reads or writes the checkpoint"],
    "hostile_python": ["PyFunc", "runs Python"],
}
# The signature is honest; the initializer, or what restores the variables, is not.
NEVER_RUN = ["hostile_initializer", "hostile_restore", "hostile_saver"]


@pytest.fixture
def written(models: Mapping[str, Path], name: str) -> Iterator[Callable[[], list[Path]]]:
    """`written()`: what the hostile model `name` has written, into the folder that all of them write into."""

    def found() -> list[Path]:
        return list((models["dense"].parent / "canaries").glob(f"{name}*"))

    _remove(found())
    yield found
    _remove(found())


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


@pytest.mark.sweep("hostile_signature", night=["hostile_python"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_signature_that_reaches_outside_is_refused(
    *,
    tfaot: CommandLine,
    tmp_path: Path,
    models: Mapping[str, Path],
    spec_of: Callable[..., Path],
    name: str,
    written: Callable[[], list[Path]],
) -> None:
    spec = spec_of(models[name])
    says = ["the signature 'serving_default' runs operations that reach out of the model", *REFUSED[name]]
    tfaot.fails("publish", spec, "--registry", tmp_path / "registry", code=12, says=says)
    assert written() == []


# Without user namespaces nobody is confined: hardened kernels, containers.
NO_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces"


@pytest.mark.sweep("hostile_restore", night=["hostile_saver"])
@pytest.mark.parametrize("name", NEVER_RUN)
def test_initializers_and_restore_operations_never_run(
    tfaot: CommandLine,
    models: Mapping[str, Path],
    in_namespace: Callable[[str], list[str]],
    name: str,
    written: Callable[[], list[Path]],
) -> None:
    unconfined = tfaot.with_(wrapper=in_namespace(NO_NAMESPACES))
    assert (
        subprocess.run([*unconfined.wrapper, "unshare", "-r", "true"], capture_output=True, check=False).returncode != 0
    )
    assert unconfined.works("check", models[name])["compilable"]
    assert written() == []
