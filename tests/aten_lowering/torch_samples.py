"""Write .aten files of PyTorch's own samples of its operators, with its answers, to a folder.

    PYTHON_WITH_TORCH torch_samples.py EXPORT FOLDER

The samples are those of torch.testing, by which PyTorch tests its operators: up to four of each, in float32. Files have
no classes of inputs. What cannot be exported, because it returns no tensors or torch.export refuses it, is left out.
"""

import importlib
import signal
import sys
import types
import unittest
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frozen"))
import torch_files

# A package of PyTorch's own tests, which the samples need for its class alone.
sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
op_db = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db

SECONDS = 40


class WithoutClasses:
    def __init__(self, *_, **__):
        pass

    def classes(self):
        return []


class Sample(torch.nn.Module):
    """An operator on some of a sample's arguments, the tensors at `places` of `leaves`; others are fixed."""

    def run(self, *given):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, given, strict=True):
            leaves[place] = tensor
        first, rest, named = tree_unflatten(leaves, self.tree)
        found = tree_flatten(self.operator(first, *rest, **named))[0]
        return {f"output{place}": each for place, each in enumerate(found) if isinstance(each, torch.Tensor)}


def sample_module(operator, sample):
    """The module and its inputs; None if it has none that are dense."""
    leaves, tree = tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    places = [place for place, each in enumerate(leaves) if isinstance(each, torch.Tensor)]
    if not places or any(leaves[place].layout != torch.strided for place in places):
        return None
    names = [f"input{place}" for place in range(len(places))]
    # The names of parameters are those of inputs.
    scope = {}
    exec(f"def forward(self, {', '.join(names)}): return self.run({', '.join(names)})", scope)
    module = type("Sample", (Sample,), {"forward": scope["forward"]})().eval()
    module.leaves = [None if place in places else each for place, each in enumerate(leaves)]
    module.places, module.tree, module.operator = places, tree, operator.op
    return module, dict(zip(names, (leaves[place].detach().clone() for place in places), strict=True))


def samples_of(operator):
    torch.manual_seed(1)
    found = []
    for sample in operator.sample_inputs("cpu", torch.float32, requires_grad=False):
        found.append(sample)
        if len(found) > 40:
            break
    last = len(found) - 1
    return {place: found[place] for place in sorted({0, last // 3, 2 * last // 3, last}) if found}


def out_of_time(*_):
    raise TimeoutError


def main():
    helper, folder = sys.argv[1:]
    export = torch_files.exporter(helper)
    sys.modules["exporting.exporting"].Answerer = WithoutClasses
    signal.signal(signal.SIGALRM, out_of_time)
    for operator in op_db:
        if not operator.supports_dtype(torch.float32, "cpu"):
            continue
        name = operator.name + (f"-{operator.variant_test_name}" if operator.variant_test_name else "")
        for place, sample in samples_of(operator).items():
            made = sample_module(operator, sample)
            if made is None:
                continue
            module, inputs = made
            shapes = {key: ",".join(map(str, each.shape)) for key, each in inputs.items()}
            signal.alarm(SECONDS)
            try:
                export(module, inputs, Path(folder, f"{name.replace('/', '-')}.{place}.aten"), shapes=shapes)
            except Exception as error:
                print(f"{name}.{place}: {type(error).__name__}: {str(error)[:200]}")
            finally:
                signal.alarm(0)


if __name__ == "__main__":
    main()
