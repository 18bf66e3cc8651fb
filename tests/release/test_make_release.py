"""`make release`, with a key that is thrown away: what it builds, checks and signs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tfaot_pkg
from tfaot_pkg.ground.process import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_release_is_built_from_the_commit_checked_and_signed(
    require_program: Callable[[str], str], tmp_path: Path
) -> None:
    require_program("gpg")
    clone, keys, found = tmp_path / "clone", tmp_path / "keys", tfaot_pkg.__version__
    run(["git", "clone", "--quiet", "--local", ROOT, clone])
    (clone / "build").mkdir()
    for tools in ROOT.glob("build/release-*"):  # a fresh clone has none, and makes its own
        (clone / "build" / tools.name).symlink_to(tools)
        os.utime(clone / "requirements" / "release.txt", (0, 0))  # older than these, though it was just written
    keys.mkdir(mode=0o700)
    # What needs conda packages or an image from elsewhere is tried where these are: by the workflow of releases.
    offline = {"TFAOT_CONDA_CHANNEL": "none", "TFAOT_IMAGE_BASE": "none"}
    environment = {**os.environ, "GNUPGHOME": str(keys), **offline}

    def done(*argv: str) -> str:
        ended = subprocess.run(argv, cwd=clone, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return ended.stdout + ended.stderr

    done("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "Nobody <nobody@example.org>", "ed25519", "sign")
    (key, *_) = re.findall(r"^fpr:+(\w+):$", done("gpg", "--list-keys", "--with-colons"), re.MULTILINE)
    try:
        said = done("make", "release", "REPOSITORY=https://example.org/group/tfaot-pkg", f"KEY={key}")
        names = [f"tfaot_pkg-{found}-py3-none-any.whl", f"tfaot_pkg-{found}.tar.gz"]
        assert said.count("PASSED") == 2, said  # by twine, which wraps long lines and colours words
        assert re.search(r"^installed and started in an empty home by Python 3\.1[0-3]", said, re.MULTILINE)
        assert sorted(each.name for each in (clone / "dist").iterdir()) == [
            "SHA256SUMS", "SHA256SUMS.asc", "conda", "container", *names,
        ]  # fmt: skip
        assert {each.name for each in (clone / "dist/container").iterdir()} == {
            "Containerfile",
            "requirements.txt",
            names[0],
        }
        assert "hook for pre-commit: installed, passed a spec and rejected another" in said
        assert "Good signature" in done("gpg", "--verify", "dist/SHA256SUMS.asc", "dist/SHA256SUMS")
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=clone / "dist", check=True)
        # The command that it prints makes a tag that git verifies.
        (tag,) = re.findall(rf"^  (git tag --sign .* v{re.escape(found)} [0-9a-f]{{40}})$", said, re.MULTILINE)
        done("bash", "-c", f"git config user.email nobody@example.org; git config user.name Nobody; {tag}")
        assert "Good signature" in done("git", "tag", "--verify", f"v{found}")
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=False)
