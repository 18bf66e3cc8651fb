"""settings.yaml: what options default to, faults in it, and what prints them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.commands import run_command
from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.settings_file import Settings, write_registries
from tfaot_pkg.ground.settings_form import json_schema

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folders(tfaot_home: Path) -> Folders:
    tfaot_home.mkdir()
    return Folders.of_user()


def _says(folders: Folders, text: str) -> Settings:
    assert folders.settings_file is not None
    folders.settings_file.write_text(text)
    return Settings.of_file(folders)


def _run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_command(list(words), env={**os.environ, **variables})


def test_without_a_file_all_settings_have_their_defaults(folders: Folders) -> None:
    assert Settings.of_file(folders) == Settings()
    assert _says(folders, "# nothing yet\n") == Settings()
    assert Settings.of_file(Folders(cache=folders.cache, data=folders.data)) == Settings(), "as in builds of a night"


def test_every_setting_is_read(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    text = """
registry: https://models.example.org/
registries: [cms, ~/models]
prefix: ~/prefix
offline: true
conan: false
keys: [~/keys, /media/keys]
wheelhouse: /srv/wheels
"""
    said = _says(folders, text)
    assert said == Settings(
        registry="https://models.example.org/",
        registries=("cms", "/home/ada/models"),
        prefix=Path("/home/ada/prefix"),
        offline=True,
        conan=False,
        keys=(Path("/home/ada/keys"), Path("/media/keys")),
        wheelhouse=Path("/srv/wheels"),
        lines=said.lines,
    )
    assert (said.lines["registry"], said.lines["wheelhouse"]) == (2, 8)
    jsonschema.validate(yaml.safe_load(text), json_schema())


@pytest.mark.parametrize(
    "text",
    [
        "prefixx: a\n",
        "registry: cms\noffline: maybe\nkeys: keys\n",
        "registries: [models/a, cms, cms]\n",
        "- registry\n",
        "prefix: [\n",
        "wheelhouse: wheels\nprefix: ''\n",
    ],
)
def test_every_fault_has_its_line(folders: Folders, text: str) -> None:
    with reported(SpecError):
        _says(folders, text)


def test_the_list_is_written_into_a_file_that_stays_as_it_is(folders: Folders, tmp_path: Path) -> None:
    file = folders.settings_file
    assert file is not None
    write_registries(["a"], folders)
    assert file.read_text() == "registries: [a]\n"
    real = tmp_path / "dotfiles.yaml"
    real.write_text("# mine\nprefix: p\n")
    file.unlink()
    file.symlink_to(real)
    write_registries(["a", "/srv/my models: new"], folders)
    assert real.read_text() == "# mine\nprefix: p\nregistries: [a, '/srv/my models: new']\n" and file.is_symlink()
    assert Settings.of_file(folders).registries == ("a", "/srv/my models: new")
    write_registries([], folders)
    assert real.read_text() == "# mine\nprefix: p\n"


def test_a_form_that_no_command_changes_is_left_alone(folders: Folders) -> None:
    before = "{registries: [a],\n prefix: p}\n"
    _says(folders, before)
    with pytest.raises(Exception, match="no command changes") as caught:
        write_registries(["b"], folders)
    assert "registries: [b]" in caught.value.hint  # type: ignore[attr-defined]
    assert folders.settings_file is not None and folders.settings_file.read_text() == before


def test_an_option_comes_before_a_variable_and_that_before_the_file(folders: Folders, tmp_path: Path) -> None:
    _says(folders, "registry: cms\nkeys: [/a]\nprefix: /p\n")
    told = json.loads(_run("settings", "--json").stdout)
    assert told["file"] == str(folders.settings_file)
    assert told["settings"]["registry"] == {"value": "cms", "from": "line 1"}
    assert told["settings"]["conan"] == {"value": True, "from": "default"}
    told = json.loads(_run("settings", "--json", TFAOT_REGISTRY="hep", TFAOT_REGISTRY_KEYS="/b:/c").stdout)["settings"]
    assert told["registry"] == {"value": "hep", "from": "TFAOT_REGISTRY"}
    assert told["keys"] == {"value": ["/b", "/c"], "from": "TFAOT_REGISTRY_KEYS"}
    shown = _run("settings").stdout
    assert str(folders.settings_file) in shown and "/p  (line 3)" in shown
    assert json.loads(_run("list", tmp_path, "--json").stdout)["prefix"] == str(tmp_path)
    done = _run("list")
    assert (done.returncode, "/p" in done.stderr) == (22, True)


def test_a_fault_stops_what_needs_a_setting_and_never_help(folders: Folders) -> None:
    assert folders.settings_file is not None
    folders.settings_file.write_text("registry: cms\nprefixx: a\n")
    for words in (["help"], ["help", "install"], ["install", "--help"], ["version"], ["schema", "--settings"]):
        assert _run(*words).returncode == 0, words
    for words in (["show", "digits"], ["list"], ["settings"], ["registry", "list"]):
        done = _run(*words)
        assert (done.returncode, f"{folders.settings_file}:2: prefixx" in done.stderr) == (10, True), words
    found = {one["subject"]: one for one in json.loads(_run("doctor", "--json").stdout)["findings"]}
    assert not found["settings"]["good"] and "prefixx" in found["settings"]["finding"]


def test_the_schema_is_the_current_one() -> None:
    kept = json.loads((ROOT / "docs/settings.schema.json").read_text())
    assert kept == json.loads(json.dumps(json_schema())), "outdated: make reference"
    assert json.loads(_run("schema", "--settings").stdout) == kept
