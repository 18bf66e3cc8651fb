"""What the first use costs in an empty home, from the installation of the wheel to the first number.

    .venv/bin/python benchmarks/first_use.py [--only NAME ...] [--json FILE]

Each path is that of a person who has nothing but Python, a compiler and CMake, as the documentation gives it. Its
commands run in a home, a folder and an environment of their own. Of each path: seconds by the clock, of which those
before the tool is installed; bytes that the machine received meanwhile (so nothing else should download); and what is
on the disk afterwards, in the environment and in the home.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PROGRAM = """
tfaot-pkg install {name} --registry registry --prefix prefix
tfaot-pkg new-app {name} app --prefix prefix
cmake -S app -B app/build -DCMAKE_PREFIX_PATH="$PWD/prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build app/build
app/build/app
"""
"""From a published model to numbers in C++."""
_INSTALL = "python3 -m venv env; env/bin/pip install --quiet {wheel}"
PATHS: dict[str, tuple[str, ...]] = {
    "an ONNX file in C++": (
        "tfaot-pkg sample from-onnx", "tfaot-pkg init from-onnx/tagger.onnx --name tagger",
        "tfaot-pkg publish spec.yaml --registry registry", _PROGRAM.format(name="tagger"),
    ),
    "decision trees in C++": (
        "tfaot-pkg sample from-xgboost", "tfaot-pkg init from-xgboost/model.json --name signal",
        "tfaot-pkg publish spec.yaml --registry registry", _PROGRAM.format(name="signal"),
    ),
    "a SavedModel in C++": (
        "tfaot-pkg sample digits", "tfaot-pkg init digits/saved_model --name digits",
        "tfaot-pkg publish spec.yaml --registry registry", _PROGRAM.format(name="digits"),
    ),
    "a notebook": (
        "tfaot-pkg sample from-onnx",
        "python -c 'import tfaot_pkg; print(tfaot_pkg.compile(\"from-onnx/tagger.onnx\"))'",
    ),
    "CMSSW": (
        "tfaot-pkg sample digits",
        'mkdir -p area/src; CMSSW_BASE="$PWD/area" tfaot-pkg build digits/spec.yaml --dev',
        "ls area/tfaot/*.xml",
    ),
    "a night of two models": (
        "tfaot-pkg sample digits models/digits; tfaot-pkg sample wine models/wine",
        "printf 'registry: registry\\nmodels: [{spec: models/*/spec.yaml}]\\n' > registry.yaml",
        "tfaot-pkg nightly run registry.yaml",
        "tfaot-pkg search --registry registry",
    ),
}  # fmt: skip
"""By name: the steps after the installation."""
CONSUMER = "somebody else's model in C++"
"""The package is published before, by the path of the ONNX file; then the home is empty again."""
MANAGER = "a release manager"
"""Two versions, of which XGBoost has other numbers, from the first key to a reader of a mirror without a network."""
_MANAGER_WORDS = r"""
KEYS='--keys build/keys --passphrase-file build/secrets/keeper'
users_get() { [[ $(tfaot-pkg resolve signal --registry build/models --dry-run) == "tfaot-model-signal@$1"* ]]; }
refused() {  # with the exit code $1, and with a way out
    if "${@:2}" 2> said; then return 1; else test $? = "$1"; fi
    grep -q '^hint: ' said
}
serve() {  # the folder $1 at $URL, until `stop`, or the end of the step
    : > serve.log  # the address of a server before
    tfaot-pkg serve "$1" --port 0 > serve.log 2> access.log &
    server=$!
    trap stop EXIT
    while kill -0 $server && ! grep -q '^serving' serve.log; do sleep 0.2; done
    URL=$(sed -n 's/^serving .* at //p' serve.log)
}
stop() { kill $server; wait $server || true; trap - EXIT; }
"""
_MANAGER_STEPS = (
    # docs/how-to/run-a-signed-registry.md
    """
tfaot-pkg sample from-xgboost
mkdir -m 700 -p build/secrets
head -c 24 /dev/urandom | base64 > build/secrets/keeper
tfaot-pkg registry init build/models $KEYS --root-keys 3 --threshold 2
for number in 1 2 3; do
    mkdir -m 700 build/safe-$number
    cp build/keys/keys.json build/safe-$number/
    mv build/keys/root-$number.* build/safe-$number/
done
tfaot-pkg publish from-xgboost/spec.yaml --no-conan --registry build/models $KEYS
""",
    # docs/how-to/channels.md
    """
tfaot-pkg registry channels build/models --set nightly,candidate,stable $KEYS
sed -i 's/version: "1.0.0"/version: "1.1.0"/' from-xgboost/spec.yaml
sed -i 's/"base_score":"[^"]*"/"base_score":"[2.5E-1]"/' from-xgboost/model.json
tfaot-pkg publish from-xgboost/spec.yaml --no-conan --registry build/models $KEYS
users_get 1.0.0
refused 16 tfaot-pkg promote signal@2.0.0 --registry build/models $KEYS
refused 18 tfaot-pkg promote signal --channel candidate --registry build/models
tfaot-pkg promote signal --channel candidate --registry build/models $KEYS
tfaot-pkg hold signal --reason conference --registry build/models $KEYS
refused 16 tfaot-pkg promote signal --registry build/models $KEYS
tfaot-pkg hold signal --undo --registry build/models $KEYS
tfaot-pkg promote signal --registry build/models $KEYS
users_get 1.1.0
tfaot-pkg resolve signal --registry build/models
""",
    # Two at once who see one mistake.
    """
managers=
for name in ada bob; do
    tfaot-pkg rollback signal --reason "wrong answers" --by $name --registry build/models $KEYS 2> $name.log &
    managers="$managers $!"
done
done=0
for manager in $managers; do if wait $manager; then done=$((done + 1)); else test $? = 16; fi; done
test $done = 1
users_get 1.0.0
tfaot-pkg log signal --registry build/models
tfaot-pkg install --locked --prefix build/locked
refused 16 tfaot-pkg promote signal --registry build/models $KEYS
tfaot-pkg promote signal --reason "the answers were right" --registry build/models $KEYS
tfaot-pkg yank signal@1.1.0 --reason "wrong licence" --registry build/models $KEYS
users_get 1.0.0
tfaot-pkg install --locked --prefix build/locked
tfaot-pkg unyank signal@1.1.0 --registry build/models $KEYS
for channel in candidate stable; do
    tfaot-pkg promote signal --channel $channel --reason "the licence was right" --registry build/models $KEYS
done
users_get 1.1.0
tfaot-pkg registry refresh build/models $KEYS
tfaot-pkg registry gc build/models --grace 0s
tfaot-pkg registry verify build/models --within 2d
""",
    # docs/how-to/mirror-a-registry.md, over HTTP. The first run is killed.
    """
serve build/models
FINGERPRINT=$(sha256sum build/models/metadata/1.root.json | cut -c1-64)
tfaot-pkg registry add ours "$URL" --fingerprint "$FINGERPRINT"
tfaot-pkg registry mirror ours build/mirror & sleep 2; kill -KILL $!; wait $! || true
tfaot-pkg registry mirror ours build/mirror
tfaot-pkg registry mirror ours build/part --channel stable
tfaot-pkg registry verify build/part
stop
refused 17 tfaot-pkg registry mirror ours build/mirror
refused 16 tfaot-pkg yank signal@1.1.0 --registry build/mirror $KEYS
tfaot-pkg registry verify build/mirror
tfaot-pkg install --locked --registry build/mirror --prefix build/locked
""",
    # A user, who has the root from the manager.
    """
export HOME="$PWD/user"
serve build/mirror
tfaot-pkg registry add models "$URL" --root build/models/metadata/1.root.json
tfaot-pkg install signal --registry models --prefix build/external
stop
tfaot-pkg install signal --registry models --offline --prefix build/prefix
[[ $(tfaot-pkg list build/prefix) == 'tfaot-model-signal 1.1.0' ]]
tfaot-pkg verify-install build/prefix --run
tfaot-pkg run signal --prefix build/prefix
""",
)
CONTRIBUTOR = "a contributor"
"""A clone of the sources, instead of an installation, and the tests of the compiler's passes."""
NAMES = (*PATHS, CONSUMER, MANAGER, CONTRIBUTOR)
_CLONE = f"git clone --quiet --local --no-hardlinks {ROOT} clone"
_PASSES = "make --directory=clone test-quick PYTEST_ARGS='tests/compiler/test_passes.py'"


@dataclass(frozen=True, kw_only=True)
class Step:
    command: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a path costs. Sizes are bytes."""

    name: str
    steps: tuple[Step, ...]
    downloads: int
    environment: int
    home: int
    numbers: str

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def installing(self) -> float:
        return self.steps[0].seconds

    @property
    def row(self) -> str:
        """Of the table that `main` prints."""
        sizes = " | ".join(f"{size / 1e6:,.0f} MB" for size in (self.downloads, self.environment, self.home))
        return f"| {self.name} | {self.installing:.0f} s | {self.seconds - self.installing:.0f} s | {sizes} |"


def wheel_in(folder: Path) -> Path:
    """The tool's wheel, built there."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def use_of(name: str, wheel: Path, folder: Path) -> Use:
    """What the path `name` costs in the new `folder`. Raises CalledProcessError."""
    folder.mkdir()
    install = _INSTALL.format(wheel=wheel)
    if name == CONTRIBUTOR:
        return followed(name, _CLONE, (_PASSES,), folder)
    if name == MANAGER:
        install = _INSTALL.format(wheel=f"'{wheel}[serve]'")
        return followed(name, install, _MANAGER_STEPS, folder, words=_MANAGER_WORDS)
    if name == CONSUMER:
        before = folder.with_name(f"{folder.name}-publisher")
        before.mkdir()
        followed("(publishing)", install, PATHS["an ONNX file in C++"][:-1], before)
        (before / "registry").rename(folder / "registry")
        return followed(name, install, (_PROGRAM.format(name="tagger"),), folder)
    return followed(name, install, PATHS[name], folder)


def followed(name: str, install: str, steps: Sequence[str], folder: Path, *, words: str = "") -> Use:
    """Run `install` and `steps` in `folder`, which may have files. `words` defines what steps use, in bash.

    Raises CalledProcessError.
    """
    home = folder / "home"
    home.mkdir()
    kept = {key: value for key, value in os.environ.items() if key.startswith("PIP_") or key.endswith("_proxy")}
    programs = f"{folder / 'env' / 'bin'}:{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    variables = {**kept, "HOME": str(home), "PATH": programs, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "LANG": "C.UTF-8"}
    done, printed, before = [], "", received()
    for command in (install, *steps):
        print(f"{name}: {command.strip()}", file=sys.stderr)
        start = time.monotonic()
        printed = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", words + command], cwd=folder, env=variables, stdout=subprocess.PIPE,
            text=True, check=True,
        ).stdout  # fmt: skip
        done.append(Step(command=command.strip(), seconds=time.monotonic() - start))
    return Use(
        name=name, steps=tuple(done), downloads=received() - before, environment=size_of(folder / "env"),
        home=size_of(home), numbers="\n".join(printed.splitlines()[-3:]),
    )  # fmt: skip


def received() -> int:
    """Bytes that came from other machines since this one started (proc_net(5))."""
    lines = [line.partition(":") for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    return sum(int(figures.split()[0]) for name, _, figures in lines if name.strip() != "lo")


def size_of(folder: Path) -> int:
    """Bytes on the disk, each file once."""
    files = [path.lstat() for path in folder.rglob("*")] if folder.is_dir() else []
    return sum({(one.st_dev, one.st_ino): one.st_blocks * 512 for one in files}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    print("| path | installation | then | received | environment | home |\n|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        wheel = wheel_in(place)
        for number, name in enumerate(given.only):
            found.append(use_of(name, wheel, place / str(number)))
            print(found[-1].row, flush=True)
    if given.json:
        given.json.write_text(json.dumps([{**asdict(one), "seconds": one.seconds} for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
