"""Prints what each compiler made of the headers: `pytest -p tests.compiler_table tests/package/test_every_compiler.py`."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.compilers import EVERY
from tfaot_pkg.ground.process import run

_CASE = re.compile(r"::test_(\w+)\[(?:(c\+\+\w+)-)?((?:clang|g)\+\+(?:-\d+)?)\]$")
_STANDARDS = {"c++17": "C++17", "c++2a": "C++20", "c++2b": "C++23"}
# By the first words of tests.
_TESTS = {
    "every_header_compiles_after": "public",
    "generated_headers": "generated",
    "headers_for_c": "C",
    "every_header_compiles_alone": "alone",
    "a_package_with_link": "LTO",
}
_RESULTS: defaultdict[str, dict[str, str]] = defaultdict(dict)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    case = _CASE.search(report.nodeid)
    if case is None or (report.when != "call" and report.passed):
        return
    test, standard, compiler = case.groups()
    column = next((short for start, short in _TESTS.items() if test.startswith(start)), "")
    if column:
        result = {"passed": "ok", "failed": "FAILED"}.get(report.outcome, "-")
        _RESULTS[compiler][f"{column} {_STANDARDS[standard]}" if standard else column] = result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _RESULTS:
        return
    columns = [f"{test} {standard}" for test in ("public", "generated") for standard in _STANDARDS.values()]
    columns = [each for each in (*columns, *_TESTS.values()) if any(each in row for row in _RESULTS.values())]
    write = terminalreporter.write_line
    write("")
    write(f"| compiler | version | {' | '.join(columns)} |")
    write(f"|---|---|{'---|' * len(columns)}")
    for compiler in (each for each in EVERY if each in _RESULTS):
        found = re.search(r"\d+\.\d+\.\d+", run([compiler, "--version"]).stdout)
        cells = [_RESULTS[compiler].get(column, "") for column in columns]
        write(f"| {compiler} | {found.group() if found else '?'} | {' | '.join(cells)} |")
    write("-: the compiler, or the C++ library beside it, does not know the standard.")
