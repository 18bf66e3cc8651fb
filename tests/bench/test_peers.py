"""Names of peers, and what is pinned for them."""

from __future__ import annotations

import re

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.process import run
from tfaot_pkg.measure.bench.peers import PEERS, installed_here, peers_named, requirements_file


def test_all_names_every_peer_and_the_order_is_always_the_same() -> None:
    assert peers_named(["all"]) == tuple(PEERS.values())
    assert [peer.name for peer in peers_named(["iree", "litert"])] == ["litert", "iree"]
    assert peers_named([]) == ()


@pytest.mark.parametrize("name", ["lite-rt", "onnx_runtime", "OpenVINO"])
def test_an_unknown_name_is_refused_with_the_nearest_known_one(name: str) -> None:
    with reported(SpecError):
        peers_named([name])


def test_a_name_that_is_like_none_is_refused_with_all_known_ones() -> None:
    with pytest.raises(SpecError) as caught:
        peers_named(["zzz"])
    assert "did you mean" not in caught.value.message and all(name in caught.value.hint for name in PEERS)


@pytest.mark.parametrize("packages", sorted({peer.packages for peer in PEERS.values() if peer.packages} | {"tf2onnx"}))
def test_every_peer_is_pinned_with_hashes_and_no_place_to_get_it_from(packages: str) -> None:
    text = requirements_file(packages).read_text()
    pins = re.findall(r"^([\w.-]+)==\S+", text, re.MULTILINE)
    assert text.count("--hash=sha256:") >= len(pins) > 0
    assert "://" not in text
    for peer in PEERS.values():
        if peer.packages == packages:
            assert set(peer.distributions) <= set(pins)


def test_a_peer_that_is_installed_beside_this_tool_is_used_as_it_is() -> None:
    found = installed_here(["numpy"])
    assert found is not None and (found.site_packages / "numpy" / "__init__.py").is_file()
    done = run([found.python, "-I", "-c", "import numpy; print(numpy.__file__)"])
    assert done.stdout.strip() == str(found.site_packages / "numpy" / "__init__.py")
    assert installed_here(["numpy", "no-such-distribution"]) is None
