"""Every operation of every toolchain is classified, and what a model may hold is what XLA compiles."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tools.classify_operations import FILE, classified, read, registered, written

_CLASS = re.compile(r"compiled|structural|inspected|rewritten|restoring|refused [a-z]+")


@pytest.fixture(scope="module")
def known() -> Mapping[str, str]:
    return read(FILE.read_text())


@pytest.fixture(scope="module", params=VERSIONS)
def operations(request: pytest.FixtureRequest, shared_home_folder: Path) -> Mapping[str, bool]:
    """Operations of a toolchain: whether XLA compiles them."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    return registered(ensure(request.param, folders=folders, progress=Silent()).python)


def test_the_file_is_as_the_tool_writes_it_and_every_class_is_known(known: Mapping[str, str]) -> None:
    assert FILE.read_text() == written(known)
    assert [name for name, kind in known.items() if not _CLASS.fullmatch(kind)] == []


def test_replacements_are_proposed_for_operations_without_a_kernel_and_are_none_themselves(
    known: Mapping[str, str],
) -> None:
    program = importlib.util.spec_from_file_location("replacements", FILE.with_name("replacements.py"))
    assert program is not None and program.loader is not None
    module = importlib.util.module_from_spec(program)
    program.loader.exec_module(module)
    # Rules may need more than an operation: constant ids, for example.
    assert {known.get(name) for name in module.INSTEAD} == {"refused kernel", "rewritten"}
    assert module.no_kernel("Foo1") == "XLA has no kernel for it" and "unsorted" in module.no_kernel("SegmentSum")


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_every_operation_of_a_toolchain_is_classified(known: Mapping[str, str], operations: Mapping[str, bool]) -> None:
    assert sorted(set(operations) - set(known)) == []
    assert classified(known, operations) == known
    compiled = {name for name, kind in known.items() if kind == "compiled"}
    assert sorted(name for name in compiled & set(operations) if not operations[name]) == []


def test_a_new_operation_is_refused_or_waits_for_a_decision() -> None:
    new = classified({"Add": "compiled"}, {"Add": True, "XlaRunAnything": True, "ReadFileV9": False, "SaveV2": False})
    assert new["XlaRunAnything"] == "unclassified" and new["SaveV2"] == "refused restoring"
    assert new["ReadFileV9"].startswith("refused") and new["Add"] == "compiled"


DANGEROUS = """
    ReadFile WriteFile MatchingFiles ImmutableConst LoadAndRemapMatrix GenerateVocabRemapping TextLineDataset SqlDataset
    SaveV2 RestoreV2 MergeV2Checkpoints WholeFileReaderV2 PyFunc EagerPyFunc PyFuncStateless XlaCustomCall
    XlaCustomCallV2 XlaHostCompute XlaLaunch RemoteCall RpcCall DumpTensor CalibrationStatisticsSaver DebugIdentityV3
    PrintV2 WriteSummary CreateSummaryDbWriter DataServiceDatasetV4 CollectiveReduceV2 XlaSend XlaRecv InfeedDequeue
    OutfeedEnqueue XlaAllReduce SymbolicGradient _XlaRun InitializeTableFromTextFileV2 DecodeProtoV2 Abort BatchFunction
""".split()


@pytest.mark.parametrize("name", DANGEROUS)
def test_what_reaches_out_of_a_model_is_refused(known: Mapping[str, str], name: str) -> None:
    assert known[name].startswith("refused") or known[name] == "restoring"
