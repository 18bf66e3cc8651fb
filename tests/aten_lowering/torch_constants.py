"""Export modules whose constants have limits, and print what became of each: its nodes and weights, or the error.

PYTHON_WITH_TORCH torch_constants.py EXPORT FOLDER
"""

import json
import sys
import zipfile
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frozen"))
import torch_files


class WithState(nn.Module):
    """Its function gets a buffer of two rows, which it may change."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("state", torch.full((2, 6), 0.5))

    def forward(self, x):
        return self.function(x, self.state)


def counting(x, state):
    state += 1
    return x + state[:1]


def overwritten(x, state):
    state.copy_(x[:2])
    return x.sum(1) + state.sum()


CASES = {
    "state_of_earlier_calls": counting,
    "state_that_is_only_written": overwritten,
    "random": lambda x, state: x + state[:1] + torch.rand(6),
    "a_branch_on_the_batch": lambda x, _: torch.cond(x.shape[0] > 500, lambda x: x * 2.0, lambda x: x + 1.0, (x,)),
    "not_set": lambda x, _: x + torch.empty(6).fill_(2.0),
    "no_larger_than_weights": lambda x, state: x @ (state.mT @ state).exp(),
    "too_large_to_store": lambda x, state: (x[:, None, None] + state[:, None].exp().expand(2, 40_000, 6)).mean((1, 2)),
    "too_large_to_compute": lambda x, _: x + torch.ones(9000, 9000).sum(),
    "of_no_input_at_all": lambda x, state: {"same": x, "constant": state.exp()},
}


def main():
    helper, folder = sys.argv[1:]
    export, found = torch_files.exporter(helper), {}
    for name, function in CASES.items():
        path = Path(folder, f"{name}.aten")
        try:
            export(WithState(function), torch.randn(3, 6), path)
        except Exception as error:
            found[name] = str(error)
            continue
        document = json.loads(zipfile.ZipFile(path).read("program.json"))
        found[name] = [[each["op"].split(".")[1] for each in document["nodes"]], list(document["weights"])]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
