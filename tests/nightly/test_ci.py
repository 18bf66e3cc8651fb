"""Definitions of scheduled jobs: by the schemas and checkers of those who read them, and by running their shell parts."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.commands import invoked
from tests.wording import reported
from tfaot_pkg.errors import ConanError, SpecError
from tfaot_pkg.nightly.ci import Job, Remote, System, render
from tfaot_pkg.nightly.ci_workers import BatchSystem, WorkerJob, render_workers
from tfaot_pkg.nightly.types import Policy

SECRET = "correct horse battery staple"
Run = Callable[..., "subprocess.CompletedProcess[str]"]

STUB = """#!/bin/sh
printf '%s|%s|%s|%s\\n' "$*" "${TFAOT_REGISTRY_KEYS:-}" "${TFAOT_REGISTRY_PASSPHRASE:-}" "${CONAN_PASSWORD_HEP:-}" >> "$CALLS"
case $2 in
run) [ -z "${TFAOT_REGISTRY_KEYS:-}" ] || cat "$TFAOT_REGISTRY_KEYS/root.pem" >> "$CALLS"; exit "$RUN_CODE" ;;
report) mkdir -p build/nightly-report; echo "## Nightly" > build/nightly-report/summary.md; exit "$REPORT_CODE" ;;
esac
"""

_PARSER = """
import org.codehaus.groovy.control.*
def unit = new CompilationUnit()
unit.addSource(new File(args[0]))
try { unit.compile(Phases.CONVERSION) } catch (CompilationFailedException e) { System.err.print(e.message); System.exit(1) }
"""


def job(**fields: Any) -> Job:
    given: dict[str, Any] = {
        "definition": "registry/registry.yaml", "state": "build/nightly-state", "report": "build/nightly-report",
        "registry": "build/registry", "folder": "/srv/models", "program": "/bin/true", "version": "1.0.0",
    }  # fmt: skip
    return Job(**given | fields)


HEP = Remote(name="hep", url="https://conan.example.org/models")
FULL = {"signed": True, "remotes": (HEP,)}
TELLING = {"notifies": True, "notify_secrets": ("TFAOT_MAIL_PASSWORD", "CHAT")}
BOTH = pytest.mark.parametrize(
    "fields", [{}, FULL, TELLING, {**FULL, **TELLING}], ids=["plain", "with secrets", "telling", "telling with secrets"]
)


def only(system: System, **fields: Any) -> str:
    (text,) = render(system, job(**fields)).values()
    return text


def shell_of(system: System, text: str) -> str:
    """All shell of a job, as one script."""
    if system == "github":
        steps = yaml.safe_load(text)["jobs"]["nightly"]["steps"]
        return "\n".join(step["run"] for step in steps if "run" in step and "pip install" not in step["run"])
    if system == "gitlab":
        return "\n".join(yaml.safe_load(text)["nightly"]["script"])
    if system == "jenkins":
        return str(re.findall(r"sh '''#!/bin/sh\n(.*?)'''", text, re.DOTALL)[-1])
    (line,) = (line for line in text.splitlines() if re.match("[0-9]", line))
    return line.split(" ", 5)[5]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a script in a folder of its own, where tfaot-pkg is a stub that notes its calls."""
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin/tfaot-pkg"
    stub.write_text(STUB)
    stub.chmod(0o755)

    def start(script: str, shell: str = "sh", **env: str) -> subprocess.CompletedProcess[str]:
        base = {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path), "CALLS": str(tmp_path / "calls"),
            "RUN_CODE": "0", "REPORT_CODE": "0", "RUNNER_TEMP": str(tmp_path / "runner"), "TMPDIR": str(tmp_path / "tmp"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        }  # fmt: skip
        for name in ("runner", "tmp"):
            (tmp_path / name).mkdir(exist_ok=True)
        argv = [shell, *(["-eo", "pipefail"] if shell == "bash" else ["-eu"]), "-c", script]
        return subprocess.run(argv, cwd=tmp_path, env=base | env, capture_output=True, text=True, check=False)

    return start


def keys_archive() -> str:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        member = tarfile.TarInfo("root.pem")
        member.size = 13
        archive.addfile(member, io.BytesIO(b"the root key\n"))
    return base64.encodebytes(data.getvalue()).decode()


@BOTH
@pytest.mark.parametrize(("system", "schema"), [("github", "github-workflows"), ("gitlab", "gitlab-ci")])
def test_pipelines_fit_the_schemas_of_their_services(system: System, schema: str, fields: dict[str, Any]) -> None:
    document = yaml.load(only(system, **fields), Loader=yaml.BaseLoader)  # texts only: `on` stays a word
    wanted = json.loads(files("check_jsonschema.builtin_schemas").joinpath(f"vendor/{schema}.json").read_text())
    typed = yaml.safe_load(only(system, **fields))
    typed = {("on" if name is True else name): value for name, value in typed.items()}
    assert set(document) == set(typed)
    found = list(jsonschema.validators.validator_for(wanted)(wanted).iter_errors(typed))
    assert [error.message for error in found] == []


def test_the_schemas_refuse_what_is_wrong() -> None:
    wanted = json.loads(files("check_jsonschema.builtin_schemas").joinpath("vendor/github-workflows.json").read_text())
    typed = yaml.safe_load(only("github"))
    typed["on"] = typed.pop(True)
    typed["jobs"]["nightly"]["steps"][0]["with"] = "nothing"
    assert not jsonschema.validators.validator_for(wanted)(wanted).is_valid(typed)


@BOTH
@pytest.mark.parametrize("system", ["github", "gitlab", "jenkins", "cron"])
def test_shellcheck_finds_no_fault(
    system: System, fields: dict[str, Any], require_program: Callable[[str], str], tmp_path: Path
) -> None:
    shell = "bash" if system in ("github", "gitlab") else "sh"
    script = tmp_path / "script"
    script.write_text(shell_of(system, only(system, **fields)) + "\n")
    argv = [require_program("shellcheck"), f"--shell={shell}", "--exclude=SC1091,SC1090", str(script)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "" and done.returncode == 0


@BOTH
def test_systemd_finds_no_fault_in_the_units(
    fields: dict[str, Any], require_program: Callable[[str], str], tmp_path: Path
) -> None:
    for name, text in render("systemd", job(user="root", **fields)).items():
        (tmp_path / name).write_text(text)
    argv = [
        require_program("systemd-analyze"),
        "verify",
        "--man=no",
        "--generators=no",
        *map(str, tmp_path.glob("tfaot-*")),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "tfaot-nightly" in line]
    assert said == [] and done.returncode == 0, done.stderr


def test_systemd_would_find_a_fault(require_program: Callable[[str], str], tmp_path: Path) -> None:
    for name, text in render("systemd", job(user="root")).items():
        (tmp_path / name).write_text(text.replace("01:17:00 UTC", "25:17:00 UTC").replace("Type=oneshot", "Type=never"))
    argv = [
        require_program("systemd-analyze"),
        "verify",
        "--man=no",
        "--generators=no",
        *map(str, tmp_path.glob("tfaot-*")),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "Failed to parse" in done.stderr


@pytest.mark.parametrize("system", ["gitlab", "jenkins"])
@pytest.mark.parametrize(("run_code", "report_code", "code"), [(0, 0, 0), (24, 24, 24), (10, 20, 10), (0, 20, 20)])
def test_the_job_ends_as_its_first_failure_and_reports_in_any_case(
    system: System, run_code: int, report_code: int, code: int, run: Run, tmp_path: Path
) -> None:
    done = run(shell_of(system, only(system)), RUN_CODE=str(run_code), REPORT_CODE=str(report_code))
    assert done.returncode == code, done.stderr
    assert [line.partition("|")[0].split(" --output")[0] for line in (tmp_path / "calls").read_text().splitlines()] == [
        "nightly run registry/registry.yaml --state build/nightly-state",
        "nightly report registry/registry.yaml --state build/nightly-state",
    ]


def test_cron_runs_in_its_folder_with_the_variables_of_a_file(run: Run, tmp_path: Path) -> None:
    config = tmp_path / ".config/tfaot-pkg/nightly.env"
    config.parent.mkdir(parents=True)
    config.write_text(f'CONAN_PASSWORD_HEP="{SECRET}"\n')
    (tmp_path / "models").mkdir()
    text = only("cron", folder=str(tmp_path / "models"), program="tfaot-pkg", remotes=(HEP,))
    done = run(shell_of("cron", text), RUN_CODE="24", REPORT_CODE="24")
    assert done.returncode == 24
    assert (tmp_path / "calls").read_text().count(SECRET) == 2
    assert (tmp_path / "models/build/nightly-report/summary.md").exists()
    assert "%" not in shell_of("cron", text), "cron takes it for the end of the line"


@pytest.mark.parametrize("system", ["github", "gitlab", "jenkins"])
def test_keys_reach_the_run_only_and_nothing_is_printed_or_left(system: System, run: Run, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_text(keys_archive())
    secrets = {"KEYS": keys_archive(), "TFAOT_KEYS_ARCHIVE": str(archive), "TFAOT_REGISTRY_PASSPHRASE": SECRET}
    text = only(system, **FULL)
    if system == "github":
        steps = {step.get("name"): step for step in yaml.safe_load(text)["jobs"]["nightly"]["steps"]}
        assert set(steps["Build, verify, publish"]["env"]) == {
            "KEYS", "TFAOT_REGISTRY_PASSPHRASE", "CONAN_LOGIN_USERNAME_HEP", "CONAN_PASSWORD_HEP",
        }  # fmt: skip
        assert "env" not in steps["Report"] and "env" not in steps["Install tfaot-pkg"]
        done = run(steps["Build, verify, publish"]["run"], "bash", **secrets)
    else:
        done = run(shell_of(system, text), "bash" if system == "gitlab" else "sh", **secrets)
    assert done.returncode == 0, done.stderr
    added, *calls = (tmp_path / "calls").read_text().splitlines()
    assert added.startswith("conan-remote add") and added.split("|")[1] == "", "it got the keys"
    assert calls[0].split("|")[2] == SECRET and calls[1] == "the root key"
    folder = Path(calls[0].split("|")[1])
    assert folder.is_relative_to(tmp_path) and not folder.exists(), "the keys were left behind"
    assert all(line.split("|")[1] == "" for line in calls[2:]), "the report got the keys"
    assert SECRET not in done.stdout + done.stderr and "root key" not in done.stdout + done.stderr


def test_github_shows_the_summary_and_ends_as_the_report(run: Run, tmp_path: Path) -> None:
    steps = {step.get("name"): step for step in yaml.safe_load(only("github"))["jobs"]["nightly"]["steps"]}
    done = run(steps["Report"]["run"], "bash", REPORT_CODE="24")
    assert done.returncode == 24
    assert (tmp_path / "summary").read_text() == "## Nightly\n"


@pytest.mark.parametrize("field", ["definition", "state", "report", "registry", "folder", "program", "user"])
@pytest.mark.parametrize("word", ["a b", "x; rm -rf ~", "$(id)", "'", '"', "a\nb", "%n", "-x", "", "${{ github }}"])
def test_a_word_that_means_something_to_a_shell_is_refused(field: str, word: str) -> None:
    with reported(SpecError):
        job(**{field: word})


@pytest.mark.parametrize("remote", [Remote(name="a b", url=HEP.url), Remote(name="hep", url="https://a/$(id)")])
def test_so_is_one_of_a_remote(remote: Remote) -> None:
    with reported(SpecError):
        job(remotes=(remote,))


@pytest.mark.parametrize("system", ["github", "gitlab", "jenkins"])
def test_a_job_on_a_new_machine_makes_its_remotes_known_before_it_runs(
    system: System, run: Run, tmp_path: Path
) -> None:
    done = run(shell_of(system, only(system, remotes=(HEP,))), "bash" if system != "jenkins" else "sh")
    assert done.returncode == 0, done.stderr
    calls = [line.partition("|")[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls[0] == "conan-remote add hep https://conan.example.org/models" and calls[1].startswith("nightly run ")


@pytest.mark.parametrize("time", ["24:00", "1:17", "01:60", "* *", "01:17\n"])
def test_what_is_no_time_is_refused(time: str) -> None:
    with reported(SpecError):
        job(at=time)


@pytest.fixture
def parse_groovy(require_program: Callable[[str], str], tmp_path: Path) -> Run:
    """Parses a text as Groovy does; nothing of it is run, nor need the classes and steps that it names be there."""
    program, java = require_program("groovy"), Path(os.path.realpath(require_program("java")))

    def parse(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "Jenkinsfile").write_text(text)
        argv = [program, "-e", _PARSER, "Jenkinsfile"]
        home = {"JAVA_HOME": str(java.parents[1])}  # Debian's groovy looks for a JRE of its own choice
        return subprocess.run(
            argv, cwd=tmp_path, env={**os.environ, **home}, capture_output=True, text=True, check=False
        )

    return parse


@pytest.mark.slow
@BOTH
def test_the_jenkinsfile_is_groovy(parse_groovy: Run, fields: dict[str, Any]) -> None:
    done = parse_groovy(only("jenkins", **fields))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_parser_of_groovy_refuses_what_is_wrong(parse_groovy: Run) -> None:
    done = parse_groovy(only("jenkins").replace("'''", "''", 1))
    assert done.returncode == 1 and "unexpected char: '#'" in done.stderr


def test_the_jenkinsfile_is_balanced_and_names_its_credentials() -> None:
    text = only("jenkins", **FULL)
    code = re.sub(r"'''.*?'''|'[^'\n]*'|\"[^\"\n]*\"|//[^\n]*", "", text, flags=re.DOTALL)
    for opening, closing in ("{}", "()", "[]"):
        assert code.count(opening) == code.count(closing)
    depth = 0
    for character in code:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert re.findall(r"^  (\w+)", code, re.MULTILINE) == [
        "agent",
        "options",
        "triggers",
        "environment",
        "stages",
        "post",
    ]
    assert re.findall(r"variable: '(\w+)'", text) == [
        "TFAOT_KEYS_ARCHIVE", "TFAOT_REGISTRY_PASSPHRASE", "CONAN_LOGIN_USERNAME_HEP", "CONAN_PASSWORD_HEP",
    ]  # fmt: skip
    assert r"cron('TZ=UTC\n17 1 * * *')" in text
    assert all("\\" not in shell for shell in re.findall("'''(.*?)'''", text, re.DOTALL)), "Groovy reads backslashes"


URL = "s3://farm/nightly"


def workers_of(system: BatchSystem, **fields: Any) -> str:
    given: dict[str, Any] = {
        "results": URL, "program": "/opt/bin/tfaot-pkg", "policy": Policy(memory=3 * 2**30, timeout=3600, output=2**30),
        "workers": 20,
    }  # fmt: skip
    (text,) = render_workers(system, WorkerJob(**given | fields)).values()
    return text


def test_slurm_workers_have_the_limits_of_the_policy(require_program: Callable[[str], str], tmp_path: Path) -> None:
    text = workers_of("slurm", directives=("--account=my-group",))
    assert re.findall("^#SBATCH (.*)$", text, re.MULTILINE) == [
        "--job-name=tfaot-nightly", "--array=1-20", "--cpus-per-task=1", "--mem=4096M", "--time=480",
        "--output=logs/%A_%a.log", "--account=my-group",
    ]  # fmt: skip
    assert "\nexec /opt/bin/tfaot-pkg nightly worker --results s3://farm/nightly --walltime 480min --name" in text
    script = tmp_path / "worker.sh"
    script.write_text(text)
    done = subprocess.run([require_program("shellcheck"), str(script)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_htcondor_workers_have_the_limits_of_the_policy() -> None:
    """By the manual of `condor_submit` alone: no package of it is at hand."""
    text = workers_of("htcondor", directives=('+JobFlavour = "nextweek"',))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[-2:] == ['+JobFlavour = "nextweek"', "queue 20"]
    values = dict(re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE))
    assert values["executable"] == "/opt/bin/tfaot-pkg" and values["request_memory"] == "4096 MB"
    assert values["request_disk"] == "10240 MB"
    assert values["arguments"].startswith('"nightly worker --results s3://farm/nightly --walltime 480min --name ')


def test_a_kubernetes_job_fits_the_schema_of_its_service() -> None:
    document = yaml.safe_load(workers_of("kubernetes", image="example.org/tfaot:1"))
    kubernetes_validate.validate(document, "1.30", strict=True)
    assert document["spec"]["parallelism"] == document["spec"]["completions"] == 20
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert container["command"] + container["args"][:2] == ["tfaot-pkg", "nightly", "worker", "--results", URL]
    assert container["resources"]["requests"]["memory"] == "4096Mi"
    document["spec"]["template"]["spec"]["containers"][0]["comand"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, "1.30", strict=True)


@pytest.mark.parametrize(
    ("system", "fields"),
    [
        ("slurm", {"results": "s3://farm/$(id)"}), ("slurm", {"results": "--help"}), ("slurm", {"logs": "my logs"}),
        ("htcondor", {"directives": ("a\nb",)}), ("kubernetes", {}), ("kubernetes", {"image": "a", "results": "/shared"}),
        ("kubernetes", {"image": "a", "directives": ("x",)}),
    ],
)  # fmt: skip
def test_workers_that_cannot_be_are_refused(system: BatchSystem, fields: dict[str, Any]) -> None:
    with reported(SpecError):
        workers_of(system, **fields)


@pytest.fixture
def repository(tmp_path: Path, tfaot_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a definition; the current folder."""
    (tmp_path / "registry").mkdir()
    (tmp_path / "spec.yaml").write_text("")
    (tmp_path / "registry/registry.yaml").write_text(
        "registry: ../build/registry\nmodels:\n  - spec: ../spec.yaml\nremotes: [hep-models]\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_what_it_would_print(repository: Path) -> None:
    with reported(ConanError):
        invoked(["nightly", "ci", "github"])
    know_the_remote()
    shown = invoked(["nightly", "ci", "github", "--at", "23:05"])
    path = ".github/workflows/nightly.yml"
    done = invoked(["nightly", "ci", "github", "--at", "23:05", "-o", path])
    assert done.stdout == f"{path}\n"
    text = (repository / path).read_text()
    assert text == shown.stdout
    assert '"5 23 * * *"' in text and "CONAN_PASSWORD_HEP_MODELS: ${{ secrets.CONAN_PASSWORD_HEP_MODELS }}" in text
    assert str(repository) not in text
    assert "tfaot-pkg conan-remote add hep-models http://conan.example.org --allow-http\n" in text


def know_the_remote() -> None:
    argv = ["conan-remote", "add", "hep-models", "http://conan.example.org", "--allow-http"]
    assert invoked(argv).exit_code == 0


def test_units_are_two_files_in_a_folder_with_whole_paths(repository: Path) -> None:
    know_the_remote()
    invoked(["nightly", "ci", "systemd", "-o", "units"])
    service = (repository / "units/tfaot-nightly.service").read_text()
    assert f"nightly run {repository}/registry/registry.yaml --state {repository}/build/nightly-state" in service
    assert "OnCalendar=*-*-* 01:17:00 UTC" in (repository / "units/tfaot-nightly.timer").read_text()


def test_a_ci_job_cannot_reach_out_of_the_checkout(repository: Path) -> None:
    with reported(SpecError):
        invoked(["nightly", "ci", "gitlab", "--state", "/var/nightly"])
