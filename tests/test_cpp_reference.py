"""The C and C++ reference: every public name of the headers has a comment, and the page is what the comments say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEADERS = "recipes/tfaot/all/include"
TOOL = "tools/make_cpp_reference.py"


@pytest.fixture
def copy(tmp_path: Path, require_program: Callable[[str], str]) -> Path:
    """What the page is made of, in a folder of its own."""
    require_program("doxygen")
    for name in ("Doxyfile", TOOL, "docs/reference/cpp.md", "docs/reference/examples.cpp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / HEADERS, tmp_path / HEADERS)
    return tmp_path


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, "--check"], cwd=root, capture_output=True, text=True, check=False)


def test_doxygen_has_nothing_to_complain_about_and_the_page_is_what_the_comments_say(copy: Path) -> None:
    done = check(copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "current\n", ""), "make doxygen"
    assert (copy / "build" / "doxygen" / "html" / "classtfaot_1_1Model.html").is_file()


def test_every_class_has_an_example() -> None:
    """tests/consumers/test_reference.py runs them. Structures of the C interface are in the example of that header."""
    sections = re.split(r"^## ", (ROOT / "docs" / "reference" / "cpp.md").read_text(), flags=re.MULTILINE)
    classes = [section for section in sections if section.startswith("tfaot::")]
    assert len(classes) >= 20 and [each.partition("\n")[0] for each in classes if "```cpp\n" not in each] == []


def test_internals_are_not_in_the_reference(copy: Path) -> None:
    assert check(copy).returncode == 0
    pages = [path.read_text() for path in (copy / "build" / "doxygen" / "html").glob("*.html")]
    pages.append((copy / "docs" / "reference" / "cpp.md").read_text())
    assert [page for page in pages if "AlignedBytes" in page] == []


def test_a_public_name_without_a_comment_is_an_error(copy: Path) -> None:
    header = copy / HEADERS / "tfaot" / "span.h"
    commented = header.read_text()
    header.write_text(commented.replace("  /// Whether there are none.\n", ""))
    done = check(copy)
    assert done.returncode == 1
    assert "Member empty() const noexcept (function) of class tfaot::span is not documented" in done.stderr


def test_a_comment_that_changed_makes_the_page_outdated(copy: Path) -> None:
    header = copy / HEADERS / "tfaot" / "span.h"
    header.write_text(header.read_text().replace("/// Whether there are none.", "/// Whether it is empty."))
    done = check(copy)
    assert (done.returncode, done.stdout) == (1, "outdated: docs/reference/cpp.md\n")
