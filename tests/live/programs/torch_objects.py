"""A module of PyTorch, whose inputs are in another order than their names, and which changes."""

from __future__ import annotations

import time

import numpy as np
import torch

import tfaot_pkg


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def forward(self, x, mask):
        return self.layers(x) * mask


torch.manual_seed(0)
net = Net().eval()
x, mask = torch.randn(6, 4), torch.ones(6, 1)
model = tfaot_pkg.compile(net, (x, mask))
start = time.perf_counter()
again = tfaot_pkg.compile(net, (x, mask))
seconds = time.perf_counter() - start
with torch.no_grad():
    theirs = net(x, mask).numpy()
first = model(x, mask)["output"]
from tfaot_pkg.live.content import content_of  # noqa: E402
from tfaot_pkg.runtime.given import shared  # noqa: E402

before = content_of(net)
with torch.no_grad():
    net.layers[0].weight[0, 0] += 1
given = shared("m", "x", x)
RESULT = {
    "no copy": given.ctypes.data == x.data_ptr(),
    "strided": shared("m", "x", x[:, ::2]).ctypes.data == x.data_ptr(),
    "out": model(x, mask, out=(taken := np.empty((6, 2), "float32")))["output"] is taken,
    "off": float(np.abs(first - theirs).max()),
    "verdict": model.report.verdict,
    "again": seconds,
    "same": again.uid == model.uid,
    "order": [each.name for each in model.signature.inputs],
    "changes": content_of(net) != before,
}
try:
    model(torch.zeros(2, 4, requires_grad=True), mask[:2])
except tfaot_pkg.RunError as error:
    RESULT["gradient"] = error.hint
try:
    tfaot_pkg.compile(net)
except tfaot_pkg.TfaotError as error:
    RESULT["without"] = [str(error), error.hint]
