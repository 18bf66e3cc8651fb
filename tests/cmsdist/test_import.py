"""import-cmsdist: what becomes of spec files of CMSDIST, and what is said of the rest."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.commands import run_command
from tests.wording import reported
from tfaot_pkg.cmsdist.importing import Imported, ModelFiles, import_spec
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.types import ArchiveSource, FolderSource, GitSource

SPECS = Path(__file__).parent / "specs"
REVISION = "0123456789abcdef0123456789abcdef01234567"
INCLUDE = "## INCLUDE tfaot-compile\n"


def write_config(folder: Path, name: str = "tagger", version: str = "1.2.0", **model: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "model": {"name": name, "version": version, "saved_model": "./saved_model", "author": "A. N. Other", **model},
        "compilation": {"batch_sizes": [1, 2, 16], "xla_flags": ["--xla_cpu_enable_fast_math=true"]},
    }
    (folder / "aot_config.yaml").write_text(yaml.safe_dump(document))
    return folder


def imported(file: str | Path, tmp_path: Path, files: Path | None = None, **defines: str) -> Imported:
    return import_spec(SPECS / file, tmp_path / "spec.yaml", defines=defines, files=ModelFiles(folder=files))


def notes(result: Imported) -> dict[int, list[str]]:
    by_line: dict[int, list[str]] = {}
    for note in result.notes:
        by_line.setdefault(note.line, []).append(note.message)
    return by_line


def test_a_git_source_and_its_aot_config_become_one_spec_without_a_note(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "files")
    result = imported("tfaot-model-tagger.spec", tmp_path, folder)
    assert result.notes == ()
    assert result.spec.source == GitSource(
        url="https://github.com/cms-models/taggers.git", revision=REVISION, subdir="models/tagger"
    )
    assert (result.spec.model.name, result.spec.model.version) == ("tagger", "1.2.0")
    assert result.spec.model.author == "A. N. Other"
    assert result.spec.compilation.batch_sizes == (1, 2, 16)
    assert result.spec.compilation.xla_flags == ("--xla_cpu_enable_fast_math=true",)
    (tmp_path / "spec.yaml").write_text(result.text)
    assert load_spec(tmp_path / "spec.yaml") == result.spec


def test_a_model_outside_of_its_aot_configs_folder_is_found_in_the_source(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "files", saved_model="../exported/best")
    result = imported("tfaot-model-tagger.spec", tmp_path, folder)
    assert isinstance(result.spec.source, GitSource)
    assert (result.spec.source.subdir, result.spec.model.files.path) == ("models/exported", "best")
    write_config(folder, saved_model="../../../best")
    with reported(SpecError):
        imported("tfaot-model-tagger.spec", tmp_path, folder)


def test_a_fetched_source_gives_its_aot_config(tmp_path: Path) -> None:
    asked = []
    folder = write_config(tmp_path / "download" / "models" / "tagger")
    fetch = ModelFiles(fetch=lambda source: asked.append(source) or folder)  # type: ignore[func-returns-value]
    result = import_spec(SPECS / "tfaot-model-tagger.spec", tmp_path / "spec.yaml", files=fetch)
    assert asked == [result.spec.source]
    assert result.spec.compilation.batch_sizes == (1, 2, 16)


@pytest.mark.parametrize("how", ["--model-files", "-D"])
def test_files_of_a_data_package_are_taken_from_where_they_are(how: str, tmp_path: Path) -> None:
    root = tmp_path / "data"
    folder = write_config(root / "RecoBTag" / "Combined" / "data" / "Run3", name="btag_run3", version="2.0.1")
    if how == "-D":
        result = imported("tfaot-model-btag-run3.spec", tmp_path, DATA_RECOBTAG_COMBINED_ROOT=str(root))
    else:
        result = imported("tfaot-model-btag-run3.spec", tmp_path, root)
    assert result.notes == ()
    assert result.spec.source == FolderSource(path=folder)
    assert yaml.safe_load(result.text)["source"] == {"path": "data/RecoBTag/Combined/data/Run3"}


def test_without_its_aot_config_a_spec_is_a_guess_and_says_so(tmp_path: Path) -> None:
    result = imported("tfaot-model-btag-run3.spec", tmp_path)
    assert (result.spec.model.name, result.spec.model.version) == ("btag_run3", "2.0.1")
    ((line, (message,)),) = notes(result).items()
    assert line == 6
    assert "data/Run3/aot_config.yaml" in message and "guesses" in message and "--model-files DIR" in message


def test_every_line_that_is_not_translated_has_a_note(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "files", name="other", version="0.9")
    found = notes(imported("tfaot-model-much.spec", tmp_path, folder))
    wanted = {
        1: ["the package tfaot-model-much is tfaot-model-other here", "the version is 1.0.0, after this line"],
        2: ["the included file compilation_flags.file is not read"],
        11: ["the next lines are not for x86_64"],
        15: ["the dependency on mkl is not translated"],
        17: ["this source is not translated: must be an https://"],
        18: ["only the first source is translated, not 'extra.tgz'"],
        19: ["is not translated: patch0: 'fix-%{cmsplatf}.patch'", "the macro %{cmsplatf} is not known"],
        21: ["macros with parameters are not expanded: %with_parameter"],
        25: ["a line of %post is not translated"],
    }
    assert found.keys() == wanted.keys()
    for line, beginnings in wanted.items():
        for message, beginning in zip(found[line], beginnings, strict=True):
            assert message.startswith(beginning)


@pytest.mark.parametrize(
    ("defines", "folder"),
    [
        ({}, "plain"),
        ({"flavour": "fast"}, "quick"),
        ({"flavour": "fast", "slow": "1"}, "fast"),
        ({"flavour": "exact"}, "exact"),
        ({"_target_cpu": "aarch64"}, "portable"),
        ({"folder": "mine", "_target_cpu": "aarch64"}, "mine"),
    ],
)
def test_conditions_and_given_macros_decide(defines: dict[str, str], folder: str, tmp_path: Path) -> None:
    for name in ("plain", "quick", "fast", "exact", "portable", "mine"):
        write_config(tmp_path / "models" / name, name="much", description=name)
    result = imported("tfaot-model-much.spec", tmp_path, tmp_path, **defines)
    assert result.spec.model.description == folder
    targets = ("aarch64",) if "_target_cpu" in defines else DEFAULT_TARGETS
    assert result.spec.compilation.targets == targets


def test_an_archive_needs_its_digest(tmp_path: Path) -> None:
    spec = tmp_path / "tfaot-model-tagger.spec"
    spec.write_text(
        "### RPM external tfaot-model-tagger 1.2.0\nSource: https://example.org/%{n}.tar.gz\n"
        "%define aot_source models-%{realversion}\n%define aot_config tagger/aot_config.yaml\n" + INCLUDE
    )
    folder = write_config(tmp_path / "files")
    without = imported(spec, tmp_path, folder)
    assert "SHA-256; give it with -D source_sha256=..." in notes(without)[2][0]
    assert without.spec.source == FolderSource(path=folder)
    digest = "ab" * 32
    assert imported(spec, tmp_path, folder, source_sha256=digest).spec.source == ArchiveSource(
        url="https://example.org/tfaot-model-tagger.tar.gz", sha256=digest, subdir="models-1.2.0/tagger"
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("git+https://github.com/x/y.git?obj=main/V01-00&export=a", "'V01-00' may change"),
        ("git+ftp://github.com/x/y.git?obj=main/" + REVISION, "must be an https://, ssh:// or file:// URL"),
        ("https://example.org/%{other}.tgz", "this source is not translated"),
        ("local.tgz", "must be an https://"),
    ],
)
def test_a_source_that_no_spec_can_hold_is_left_out_with_a_note(source: str, message: str, tmp_path: Path) -> None:
    spec = tmp_path / "x.spec"
    spec.write_text(
        f"### RPM external tfaot-model-tagger 1.2.0\n%define aot_config a/aot_config.yaml\nSource: {source}\n{INCLUDE}"
    )
    result = imported(spec, tmp_path, write_config(tmp_path / "files"))
    assert isinstance(result.spec.source, FolderSource)
    assert message in " ".join(notes(result)[3])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x\.spec:1: no line says `### RPM external NAME VERSION`"),
        ("Name: x\nVersion: 1\n", r"x\.spec:1: no line says"),
        ("### RPM external zlib 1.3\nSource: none\n%build\nmake\n", r"x\.spec:1: no %define gives aot_config"),
        ("### RPM external tfaot-model-x 1.0.0\n\n" + INCLUDE, r"x\.spec:3: no %define gives aot_config"),
        (
            "### RPM external tfaot-model-x 1.0\n%define aot_config %(find .)/a\n" + INCLUDE,
            r"x\.spec:2: %\(\.\.\.: a shell",
        ),
        (
            "### RPM external tfaot-model-x 1.0\n%if 1\n%define aot_config a\n" + INCLUDE,
            r"x\.spec:2: this %if has no %endif",
        ),
        (
            "### RPM external tfaot-model-x 1.0\n%endif\n%else\n",
            r"x\.spec:2: %endif without %if\n.*x\.spec:3: %else without",
        ),
        ("### RPM external tfaot-model-x 1.0\n%if 1\n%else\n%else\n%endif\n", r"x\.spec:4: %else after %else"),
        (
            "### RPM external tfaot-model-x 1.0\n%if %{what}\n%endif\n",
            r"x\.spec:2: %if %\{what\}: cannot parse the condition",
        ),
        ("### RPM external tfaot-model-x V01\n%define aot_config a\n" + INCLUDE, r"x\.spec:1: the version must start"),
        ("### RPM external ... 1.0\n%define aot_config a\n" + INCLUDE, r"x\.spec:1: cannot derive a model name from"),
        ("### RPM external x 1.0\n\udcff", r"x\.spec:2: is not UTF-8 text"),
        ("### RPM external x 1.0\n\0", r"x\.spec:1: is not a spec file"),
    ],
)
def test_what_is_no_spec_file_of_a_model_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    spec = tmp_path / "x.spec"
    spec.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SpecError) as caught:
        imported(spec, tmp_path)
    assert re.search(message, caught.value.message), caught.value.message


def test_a_shell_macro_that_nothing_uses_does_no_harm_and_one_that_is_used_is_never_run(tmp_path: Path) -> None:
    spec, canary = tmp_path / "x.spec", tmp_path / "canary"
    text = (
        f"### RPM external tfaot-model-tagger 1.2.0\n%define id %(touch {canary})\n%define aot_config a.yaml\n{INCLUDE}"
    )
    spec.write_text(text)
    imported(spec, tmp_path)
    spec.write_text(text.replace("a.yaml", "%{id}a.yaml"))
    with reported(SpecError):
        imported(spec, tmp_path)
    assert not canary.exists()
    assert imported(spec, tmp_path, id="b").notes[0].message.startswith("ba.yaml is not on this machine")


@pytest.mark.parametrize(
    ("line", "defines", "place"),
    [
        ("%{!?folder: %define folder %{era}/a}", {}, "Run3/a"),
        ("%{!?folder:%global folder %{era}/a}", {"folder": "b"}, "b"),
        ("%{?era: %define folder c}", {}, "c"),
        ("%{?!folder: %define folder d}", {}, "d"),
        ("%define folder e\n%{?folder: %undefine folder}\n%{!?folder: %define folder f}", {}, "f"),
    ],
)
def test_a_line_that_defines_a_macro_in_one_case_is_read_as_rpm_does(
    line: str, defines: dict[str, str], place: str, tmp_path: Path
) -> None:
    spec = tmp_path / "x.spec"
    head = "### RPM external tfaot-model-tagger 1.2.0\n%define era Run3\n"
    spec.write_text(f"{head}{line}\n%define aot_config %{{folder}}/aot_config.yaml\n{INCLUDE}")
    write_config(tmp_path / "files" / place)
    result = imported(spec, tmp_path, tmp_path / "files", **defines)
    assert result.notes == () and result.spec.model.name == "tagger"


def test_faults_of_the_aot_config_are_told_with_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "aot_config.yaml").write_text("model:\n  name: tagger\n  version: 1.0.0\n")
    with reported(SpecError):
        imported("tfaot-model-tagger.spec", tmp_path, tmp_path)


def tfaot_pkg(*arguments: str | Path) -> tuple[int, str]:
    """The exit code, and what was printed."""
    done = run_command(arguments, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_the_command_prints_notes_and_writes_the_spec_and_strict_makes_them_faults(tmp_path: Path) -> None:
    source, output = SPECS / "tfaot-model-btag-run3.spec", tmp_path / "spec.yaml"
    code, message = tfaot_pkg("import-cmsdist", source, "-o", output, "--strict")
    assert code == SpecError.exit_code and f"{source}:6: " in message
    assert not output.exists()
    code, text = tfaot_pkg("import-cmsdist", source, "-o", output)
    assert code == 0 and f"note: {source}:6: " in text
    assert load_spec(output).model.name == "btag_run3"
    code, message = tfaot_pkg("import-cmsdist", source, "-o", output)
    assert code == SpecError.exit_code and "exists already" in message
    code, text = tfaot_pkg("import-cmsdist", source, "-o", tmp_path / "other.yaml", "-D", "era=Run4", "--json")
    said = json.loads(text)
    assert (said["name"], [note["line"] for note in said["notes"]]) == ("btag_run3", [6])
    assert "Run4" in said["notes"][0]["message"]


def test_files_that_are_not_where_the_user_says_are_an_error(tmp_path: Path) -> None:
    with reported(SpecError):
        imported("tfaot-model-tagger.spec", tmp_path, tmp_path)
    with reported(SpecError):
        imported(tmp_path / "none.spec", tmp_path)


def test_fetch_reads_the_aot_config_at_the_commit_that_the_spec_file_names(tmp_path: Path, tfaot_home: Path) -> None:
    repository = tmp_path / "repository"
    write_config(repository / "models" / "tagger")
    git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    spec = tmp_path / "tfaot-model-tagger.spec"
    text = (SPECS / spec.name).read_text().replace(REVISION, commit)
    spec.write_text(re.sub(r"git\+https://.*\.git", f"git+file://{repository}", text))
    code, said = tfaot_pkg("import-cmsdist", spec, "--fetch", "-o", tmp_path / "spec.yaml")
    assert code == 0 and "note:" not in said
    loaded = load_spec(tmp_path / "spec.yaml")
    assert loaded.source == GitSource(url=f"file://{repository}", revision=commit, subdir="models/tagger")
    assert loaded.compilation.batch_sizes == (1, 2, 16)
    write_config(repository / "models" / "tagger", name="changed")  # not at that commit
    code, said = tfaot_pkg("import-cmsdist", spec, "--fetch", "-o", tmp_path / "again.yaml")
    assert load_spec(tmp_path / "again.yaml").model.name == "tagger"
