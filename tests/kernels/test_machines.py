"""What holds for the kernels of this machine's CPU in this process holds for those of another CPU under an emulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.conftest import EMULATED, Server
from tests.kernels.machines import Elsewhere
from tests.wording import reported

pytestmark = pytest.mark.slow


@pytest.mark.sweep("aarch64-behind")
@pytest.mark.parametrize("place", ["behind", "before"])
@pytest.mark.parametrize("name", EMULATED)
def test_an_emulated_kernel_that_leaves_its_array_is_caught(name: str, place: str, server: Server) -> None:
    """Softmax is told of one float more than there is, behind the array or before it."""
    with Elsewhere(server(name)) as machine:
        values = machine.buffer(np.zeros(5, np.float32), at_end=place == "behind")
        machine.call("softmax", 1, 5, values.address, values.address)
        np.testing.assert_allclose(values.read(), 0.2, rtol=1e-6)
        start = values.address - (4 if place == "before" else 0)
        with reported(ChildProcessError, varies=r"\b\d{9,}\b"):  # addresses
            machine.call("softmax", 1, 6, start, start)
