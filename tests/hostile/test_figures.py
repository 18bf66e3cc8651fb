"""The numbers on the page about security are those of the corpus and of the table of operations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from tests.hostile import test_operations as operations
from tests.hostile import test_registries as registries
from tests.kept import REPOSITORY
from tests.nightly import test_recheck as recheck
from tests.package import test_custom_files as custom_files
from tests.registry import test_archive as archives
from tests.registry import test_attestation as attestation

PAGE = (REPOSITORY / "docs" / "security.md").read_text()
_NOT_IMPORTED = frozenset({"refused", "restoring"})


def _runs(test: Callable[..., None]) -> int:
    """How often a test runs."""
    count = 1
    for mark in getattr(test, "pytestmark", []):
        count *= len(mark.args[1]) if mark.name == "parametrize" else 1
    return count


def test_the_corpus_is_as_large_as_the_page_says() -> None:
    figures: dict[str, list[Callable[..., None]]] = {
        "hostile registries": [
            registries.test_an_archive_of_other_bytes_is_not_installed,
            registries.test_files_that_builds_of_users_run_are_installed_only_if_they_are_asked_for,
            registries.test_a_document_beside_the_package_is_the_one_in_it,
            registries.test_a_blob_of_another_role_is_told,
            registries.test_documents_of_a_package_that_do_not_agree_are_told,
            registries.test_an_index_line_that_says_other_than_the_package_is_told,
        ],
        "more archives": [archives.test_a_hostile_archive_is_refused_and_writes_nothing_outside],
        "changed results of builders": [
            recheck.test_what_was_changed_in_the_state_folder_is_not_signed,
            recheck.test_every_compiled_file_has_the_code_that_was_validated,
        ],
        "changed files of packages": [custom_files.test_what_would_run_in_a_build_of_a_user_is_custom],
        "forged provenances": [attestation.test_a_provenance_that_is_not_the_publishers_is_refused],
    }
    text = " ".join(PAGE.split())
    counted = {what: sum(map(_runs, tests)) for what, tests in figures.items()}
    # Each is tried with two compilers.
    texts = (operations.AS_WRITTEN, operations.PREPROCESSED, operations.COMPILED)
    counted["hostile operations"] = sum(map(len, texts))
    assert {what: count for what, count in counted.items() if f"{count} {what}" not in text} == {}


def test_the_classes_of_operations_are_those_of_the_table() -> None:
    table = (REPOSITORY / "tfaot_pkg" / "worker_program" / "operations.txt").read_text()
    counts = Counter(line.split()[1] for line in table.splitlines() if line and not line.startswith("#"))
    told = {name: int(number) for name, number in re.findall(r"^\| (\w+) \| (\d+) \|", PAGE, re.MULTILINE)}
    assert told == {name: count for name, count in counts.items() if name != "refused"}
    allowed = sum(count for name, count in counts.items() if name not in _NOT_IMPORTED)
    assert f"Of {counts.total():,} operations {allowed} are allowed" in PAGE
