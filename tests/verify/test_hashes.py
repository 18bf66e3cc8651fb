"""Hashes of answers: which bits count, which targets must agree, and what a document may hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.wording import reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.documents import convert, plain
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.verify.hashes import NO_TARGET, Hashes, digests, grouped, unlike

Y = Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2))
WHOLE = Tensor(name="whole", dtype=DType.INT64, shape=())
SIGNATURE = Signature(inputs=(), outputs=(Y, WHOLE))
SIZES = (1, 3)


def answers(bias: float = 0.0) -> dict[str, Array]:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2) + np.float32(bias)
    rows[2, 1] = np.nan
    return {"1/y": rows.copy(), "3/y": rows, "1/whole": np.full((), 7), "3/whole": np.full((), 7)}


def made(**by_target: dict[str, Array]) -> Hashes:
    given = {name.replace("_", "-"): each for name, each in by_target.items()}
    return grouped("net", ("x86-64-v2", "x86-64-v3", "x86-64-v4"), given, SIGNATURE, SIZES)


def test_a_hash_is_that_of_the_bytes_with_one_nan() -> None:
    values = np.array([1.5, -np.nan, np.nan], np.float32)
    values.view(np.uint32)[2] = 0x7FA00001
    (found,) = digests({"1/y": values, "1/whole": np.full((), -2)}, SIGNATURE, (1,)).values()
    assert found["y"] == hashlib.sha256(bytes.fromhex("0000c03f" + 2 * "0000c07f")).hexdigest()
    assert found["whole"] == hashlib.sha256((-2).to_bytes(8, "little", signed=True)).hexdigest()
    assert values.view(np.uint32)[2] == 0x7FA00001


def test_zeros_of_both_signs_differ() -> None:
    assert digests({"1/y": np.zeros(1), "1/whole": np.zeros(1)}, SIGNATURE, (1,)) != digests(
        {"1/y": -np.zeros(1), "1/whole": np.zeros(1)}, SIGNATURE, (1,)
    )


def test_targets_that_fuse_share_hashes_and_others_have_their_own() -> None:
    found = made(x86_64_v2=answers(1), x86_64_v3=answers())
    assert [(group.targets, group.run) for group in found.groups] == [
        (("x86-64-v3", "x86-64-v4"), ("x86-64-v3",)),
        (("x86-64-v2",), ("x86-64-v2",)),
    ]
    v2, v3 = found.of("x86-64-v2"), found.of("x86-64-v3")
    assert v2 and v3 and v2.batches != v3.batches and found.of("x86-64-v4") is v3
    assert str(found) == "hashes of answers: batch sizes 1, 3; targets x86-64-v3, x86-64-v2"


def test_targets_that_promise_the_same_bits_and_give_others_are_a_fault() -> None:
    other = answers()
    other["3/y"][1, 0] = np.nextafter(other["3/y"][1, 0], np.float32(9))
    other["1/y"][1, 0] = other["3/y"][1, 0]
    with reported(ValidationError) as caught:
        made(x86_64_v2=answers(), x86_64_v3=answers(), x86_64_v4=other)
    assert "x86-64-v4, output 'y', batch size 1" in caught.value.message


def test_rows_that_depend_on_the_size_of_their_batch_are_a_fault() -> None:
    other = answers()
    other["1/y"][0, 1] += 1
    with reported(ValidationError) as caught:
        made(x86_64_v3=other)
    assert "output 'y', batch size 1" in caught.value.message


def test_a_package_whose_targets_nobody_ran_has_the_reason() -> None:
    assert made() == Hashes(reason=NO_TARGET)
    assert str(made()) == f"hashes of answers: none ({NO_TARGET})"


def test_outputs_on_one_side_only_are_different() -> None:
    batches = {1: {"y": "a"}, 3: {"y": "b"}}
    assert unlike("t", batches, batches) == []
    assert [str(each) for each in unlike("t", {1: {"z": "a"}}, batches)] == [
        "t, output 'y', batch size 1",
        "t, output 'z', batch size 1",
        "t, output 'y', batch size 3",
    ]


def test_a_document_is_read_as_it_was_written() -> None:
    found = made(x86_64_v2=answers(1), x86_64_v3=answers())
    assert convert(Hashes, plain(found)) == found


def group(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["groups"][0]
    return found


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: group(document)["batches"].update({"100000000": {"y": 64 * "0"}}),
        lambda document: group(document)["batches"].pop("1"),
        lambda document: group(document).update(batches={}),
        lambda document: group(document).update(batches=[1, 3]),
        lambda document: group(document)["batches"].update({"1": {"y": "0"}}),
        lambda document: group(document)["batches"].update({"1": {"y": 5}}),
        lambda document: group(document).update(targets=["x86-64-v3\n"]),
        lambda document: group(document).update(run=["x86-64-v2"]),
        lambda document: document.update(groups={}),
        lambda document: document.update(reason="one\ntwo"),
        lambda document: document.update(reason=1000 * "long"),
    ],
)
def test_a_hostile_document_is_damaged(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = plain(made(x86_64_v3=answers()))
    convert(Hashes, document)
    spoil(document)
    with pytest.raises(ValueError, match=r"expected|Expected"):
        convert(Hashes, document)
