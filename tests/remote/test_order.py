"""Which registry answers if none is named: TFAOT_REGISTRY, the user's own, those that were added, in an order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tests.remote.conftest import Cli
from tests.remote.faulty import FaultyServer, faulty_server, reset
from tests.wording import worded
from tfaot_pkg.registry.folder import FolderRegistry


def _publish(registry: Path, model: str, version: str) -> None:
    folder = registry.parent / f"{registry.name}-{model}-{version}"
    folder.mkdir(parents=True)
    package = package_of(folder, model, version, tiny_files(model, version))
    opened = FolderRegistry.open(registry) if registry.exists() else FolderRegistry.create(registry)
    opened.publish(package.entry, package.blobs)


@pytest.fixture
def others(cli: Cli, tmp_path: Path) -> Iterator[dict[str, FaultyServer]]:
    """Two registries that were added, `b` before `a`: both have digits, one each taus and wine."""
    for name, version, more in (("a", "1.0", "taus"), ("b", "2.0", "wine")):
        _publish(tmp_path / name, "digits", version)
        _publish(tmp_path / name, more, "1.0")
    with faulty_server(tmp_path / "a") as a, faulty_server(tmp_path / "b") as b:
        servers = {"a": a, "b": b}
        for name in ("b", "a"):
            assert cli("registry", "add", name, servers[name].url, "--unsigned").code == 0
        yield servers


def _order(cli: Cli) -> list[str]:
    order: list[str] = json.loads(cli("registry", "list", "--json").out)["order"]
    return order


def test_the_one_that_was_added_needs_no_name(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    done = cli("install", "digits", "--prefix", tmp_path / "prefix")
    assert (done.code, "tfaot-model-digits 1.0: installed" in done.out) == (0, True), done.err
    assert cli("search", "digits").out.startswith("tfaot-model-digits@1.0")


def test_the_first_that_has_the_package_gives_it(cli: Cli, others: dict[str, FaultyServer]) -> None:
    assert _order(cli) == ["b", "a"]
    assert "digits@2.0" in cli("show", "digits").out
    assert "taus@1.0" in cli("show", "taus").out
    assert cli("registry", "order", "a").code == 0
    assert _order(cli) == ["a", "b"]
    assert "digits@1.0" in cli("show", "digits").out
    assert "digits@2.0" in cli("show", "digits", "--registry", "b").out


def test_a_version_is_not_looked_for_behind_the_first(cli: Cli, others: dict[str, FaultyServer]) -> None:
    """Else whoever may publish into a later registry could take the place of a package with a higher version."""
    done = cli("show", "digits@1.0")
    assert done.code == 16
    assert "1.0" in done.error


def test_the_users_own_comes_first_unless_it_is_named(
    cli: Cli, others: dict[str, FaultyServer], tfaot_home: Path
) -> None:
    own = tfaot_home / "data/registry"
    _publish(own, "digits", "3.0")
    assert _order(cli) == [str(own), "b", "a"]
    assert "digits@3.0" in cli("show", "digits").out
    assert cli("registry", "order", "a", own).code == 0
    assert _order(cli) == ["a", str(own), "b"]
    assert "digits@1.0" in cli("show", "digits").out


def test_search_tells_where(cli: Cli, others: dict[str, FaultyServer]) -> None:
    found = json.loads(cli("search", "--json").out)["found"]
    assert [(one["registry"], one["name"], one["version"]) for one in found] == [
        ("b", "tfaot-model-digits", "2.0"),
        ("b", "tfaot-model-wine", "1.0"),
        ("a", "tfaot-model-digits", "1.0"),
        ("a", "tfaot-model-taus", "1.0"),
    ]
    assert cli("search", "wine").out == "b:\n  tfaot-model-wine@1.0  Handwritten digits\na:\n  nothing found\n"


def test_packages_of_several_registries_are_not_mixed(
    cli: Cli, others: dict[str, FaultyServer], tmp_path: Path
) -> None:
    done = cli("install", "taus", "wine", "--prefix", tmp_path / "prefix")
    assert (done.code, (tmp_path / "prefix").exists()) == (16, False)
    assert "b lacks tfaot-model-taus; a lacks tfaot-model-wine" in done.error


def test_what_no_registry_has_is_named_with_what_is_like_it(cli: Cli, others: dict[str, FaultyServer]) -> None:
    done = cli("show", "tau")
    assert (done.code, "tfaot-model-taus" in done.err) == (16, True)
    assert "did you mean digits?" in cli("search", "digts").out


def test_one_that_cannot_be_reached_is_not_passed_over(cli: Cli, others: dict[str, FaultyServer]) -> None:
    others["b"].faults = {".*": reset}
    done = cli("show", "taus")
    assert done.code == 17, done.out


def test_a_folder_that_is_missing_is_not_passed_over(cli: Cli, others: dict[str, FaultyServer], tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    _publish(mounted, "digits", "4.0")
    assert cli("registry", "order", mounted).code == 0
    assert "digits@4.0" in cli("show", "digits").out
    mounted.rename(tmp_path / "elsewhere")
    assert cli("show", "digits").code == 16


def test_the_variable_names_one_that_is_asked_alone(
    cli: Cli, others: dict[str, FaultyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_REGISTRY", "a")
    assert "digits@1.0" in cli("show", "digits").out
    assert cli("show", "wine").code == 16
    assert "digits@2.0" in cli("show", "digits", "--registry", "b").out
    # What writes needs a folder.
    assert "on a server" in cli("yank", "digits@1.0", "--reason", "x").error
    monkeypatch.setenv("TFAOT_REGISTRY", str(tmp_path / "a"))
    assert cli("yank", "digits@1.0", "--reason", "x").code == 0


def test_the_lock_file_names_the_registry_that_answered(
    cli: Cli, others: dict[str, FaultyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "tfaot.lock"
    assert cli("resolve", "taus", "--lock", lock).code == 0
    assert json.loads(lock.read_text())["registry"]["name"] == "a"


def test_an_order_of_what_is_not_there_is_refused(cli: Cli, others: dict[str, FaultyServer], tfaot_home: Path) -> None:
    before = _order(cli)
    done = cli("registry", "order", "a", "nosuch")
    assert (done.code, _order(cli)) == (16, before)
    assert cli("registry", "remove", "b").code == 0
    assert _order(cli) == ["a"]


def test_the_order_stands_in_the_settings_beside_what_the_user_wrote(
    cli: Cli, others: dict[str, FaultyServer], tfaot_home: Path
) -> None:
    file = tfaot_home / "settings.yaml"
    assert not file.exists(), "adding a registry writes into no file of the user's"
    file.write_text("# mine\nregistries:\n  - b\n  - a  # last\n# of this project\nprefix: models\n")
    assert _order(cli) == ["b", "a"]
    assert cli("registry", "order", "a", "b").code == 0
    assert file.read_text() == "# mine\nregistries: [a, b]\n# of this project\nprefix: models\n"
    assert _order(cli) == ["a", "b"]
    assert cli("registry", "remove", "a").code == 0
    assert file.read_text() == "# mine\nregistries: [b]\n# of this project\nprefix: models\n"
    # What a person writes may be mistyped: then no other registry answers.
    file.write_text("registries: [b, nosuch]\n")
    done = cli("show", "taus")
    assert done.code == 10
    worded(done.words)


def test_one_in_the_settings_is_asked_alone_after_the_variable(
    cli: Cli, others: dict[str, FaultyServer], tfaot_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tfaot_home / "settings.yaml").write_text("registry: a\n")
    assert _order(cli) == ["a"]
    assert cli("show", "wine").code == 16
    monkeypatch.setenv("TFAOT_REGISTRY", "b")
    assert _order(cli) == ["b"]
    assert "digits@1.0" in cli("show", "digits", "--registry", "a").out


def test_the_settings_may_leave_servers_alone(cli: Cli, others: dict[str, FaultyServer], tfaot_home: Path) -> None:
    assert cli("show", "digits").code == 0
    (tfaot_home / "settings.yaml").write_text("offline: true\n")
    others["b"].seen.clear()
    assert cli("show", "digits").code == 0
    assert others["b"].seen == []
    assert cli("show", "digits", "--no-offline").code == 0
    assert others["b"].seen
