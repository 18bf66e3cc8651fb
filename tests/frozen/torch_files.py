"""Write files of PyTorch modules, with PyTorch's answers, to a folder.

    PYTHON_WITH_TORCH torch_files.py EXPORT.py FOLDER

The files that PyTorch 2.13 wrote are kept in artifacts/torch.
"""

import importlib.util
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

MODULES = {}


def keeper(modules):
    """The decorator of functions that make modules, which keeps them in `modules`.

    It takes the shapes of their inputs, `name="axes"` or `name="axes:dtype"` (`ones`: float32, 0 or 1), and limits.
    """

    def module(*, limits=(), **shapes):
        def keep(function):
            modules[function.__name__] = (function, shapes, (limits,) if isinstance(limits, str) else limits)
            return function

        return keep

    return module


module = keeper(MODULES)


class Calls(nn.Module):
    """A module that calls `function` with its `parts` and its inputs."""

    def __init__(self, function, **parts):
        super().__init__()
        self.parts, self.function = nn.ModuleDict(parts), function

    def forward(self, x):
        return self.function(self.parts, x)


class CallsWithTwo(Calls):
    def forward(self, x, y):
        return self.function(self.parts, x, y)


@module(input="batch,8")
def linear():
    return nn.Linear(8, 5)


@module(input="batch,4,20")
def conv1d():
    return nn.Conv1d(4, 6, 5, padding=2, stride=2, groups=2)


@module(input="batch,3,10,12")
def conv2d():
    return nn.Conv2d(3, 5, (3, 5), padding="same", dilation=(2, 1))


@module(input="batch,2,6,6,6")
def conv3d():
    return nn.Conv3d(2, 3, 3, padding=1)


@module(input="batch,3,7,5")
def conv_transpose2d():
    return nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)


@module(input="batch,6,9")
def batch_norm():
    made = nn.BatchNorm1d(6)
    nn.init.normal_(made.running_mean)
    nn.init.uniform_(made.running_var, 0.5, 2)
    nn.init.normal_(made.weight)
    return made


@module(input="batch,7,6")
def layer_norm():
    return nn.Sequential(nn.LayerNorm(6), nn.LayerNorm([7, 6], elementwise_affine=False))


@module(input="batch,8,5,5")
def group_norm():
    return nn.Sequential(nn.GroupNorm(2, 8), nn.InstanceNorm2d(8))


@module(input="batch,9")
def gelu():
    return nn.Sequential(nn.GELU(), nn.GELU(approximate="tanh"))


@module(x="batch,12")
def activations():
    kinds = (
        nn.ReLU(), nn.LeakyReLU(0.2), nn.ELU(), nn.SELU(), nn.SiLU(), nn.Mish(), nn.Softplus(), nn.Hardswish(),
        nn.PReLU(), nn.Softsign(), nn.Hardtanh(), nn.LogSoftmax(-1), nn.CELU(0.7), nn.ReLU6(), nn.Tanhshrink(),
    )  # fmt: skip
    parts = {str(place): kind for place, kind in enumerate(kinds)}
    return Calls(lambda parts, x: torch.stack([each(x) for each in parts.values()], 1), **parts)


@module(x="batch,6,8")
def multihead_attention():
    return Calls(lambda parts, x: parts["a"](x, x, x), a=nn.MultiheadAttention(8, 2, batch_first=True))


@module(x="batch,n,8", y="batch,n:bool")
def attention_with_mask():
    """Particles that are not there are masked; the first one always is."""

    def call(parts, x, y):
        return parts["a"](x, x, x, key_padding_mask=y ^ y[:, :1], need_weights=False)[0].sum(1)

    return CallsWithTwo(call, a=nn.MultiheadAttention(8, 2, batch_first=True))


@module(src="batch,5,8")
def transformer_encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


@module(x="batch,7,4")
def lstm():
    made = nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True)
    return Calls(lambda parts, x: parts["a"](x)[0], a=made)


@module(x="batch,7,4")
def gru():
    made = nn.GRU(4, 6, batch_first=True)

    def call(parts, x):
        steps, last = parts["a"](x)
        return {"steps": steps, "last": last[0]}

    return Calls(call, a=made)


@module(x="batch,6:int64")
def embedding():
    return Calls(lambda parts, x: parts["a"](x).mean(1), a=nn.Embedding(10, 4))


@module(x="batch,3,9,9")
def pooling():
    parts = {
        "max": nn.MaxPool2d(3, 2, padding=1),
        "mean": nn.AvgPool2d(2, ceil_mode=True),
        "all": nn.AdaptiveAvgPool2d(1),
        "adaptive": nn.AdaptiveMaxPool2d(3),
    }
    return Calls(lambda parts, x: tuple(each(x) for each in parts.values()), **parts)


@module(x="batch,6,4")
def scatter_add():
    index = torch.tensor([0, 2, 1, 2, 0, 4])

    def call(_, x):
        zeros = torch.zeros(x.shape[0], 5, 4)
        return zeros.scatter_add(1, index[None, :, None].expand_as(x), x)

    return Calls(call)


@module(x="batch,6,4")
def index_add():
    """The messages of edges of a graph, added up by the nodes that receive them."""
    sender, receiver = torch.tensor([0, 1, 2, 3, 4, 5]), torch.tensor([1, 0, 3, 1, 5, 1])
    return Calls(lambda _, x: torch.zeros_like(x).index_add(1, receiver, torch.tanh(x[:, sender])))


@module(x="batch,15")
def topk():
    def call(_, x):
        values, places = torch.topk(x, 4)
        return {"values": values, "places": places}

    return Calls(call)


@module(x="batch,5,3", y="batch,5,3")
def einsum():
    return CallsWithTwo(lambda _, x, y: torch.einsum("bic,bjc->bij", x, y) + torch.bmm(x, y.mT))


@module(x="batch,4,6")
def masking():
    def call(_, x):
        lower = torch.tril(torch.ones(4, 6, dtype=torch.bool))
        return torch.where(lower & (x > 0), x, x.masked_fill(x < -1, -1.0)).cumsum(1).clamp(-2, 3)

    return Calls(call)


@module(x="batch,3,5,5")
def resizing():
    def call(_, x):
        larger = functional.interpolate(x, scale_factor=2, mode="nearest")
        smooth = functional.interpolate(x, size=(10, 10), mode="bilinear", align_corners=False)
        return functional.pad(larger + smooth, (1, 2, 0, 1), mode="reflect")

    return Calls(call)


@module(x="batch,4,3")
def reductions():
    def call(_, x):
        return {
            "variance": x.var(1), "norm": torch.linalg.vector_norm(x, dim=1), "best": x.argmax(1), "all": x.amax((1, 2)),
            "sum": torch.logsumexp(x, 1), "sorted": torch.sort(x, 1, descending=True)[0], "product": x.prod(2),
        }  # fmt: skip

    return Calls(call)


@module(x="8,3")
def selection():
    """As many rows as values say, once in an order that other indices decide."""

    def call(parts, x):
        best = torch.nonzero(x[:, 1] > 0).squeeze(1)
        return {
            "hits": parts["a"](torch.relu(x[x[:, 0] > 0.25])),
            "places": (x > 0).nonzero(),
            "best": torch.index_select(x, 0, best),
        }

    return Calls(call, a=nn.Linear(3, 2))


def write(export, folder, modules):
    for name, (make, shapes, limits) in modules.items():
        torch.manual_seed(1)
        axes = {key: text.partition(":")[0] for key, text in shapes.items()}
        usual = ["2<=n<=32"] if any("n" in each.split(",") for each in axes.values()) else []
        inputs = {key: example(axes[key].split(","), text.partition(":")[2]) for key, text in shapes.items()}
        export(make(), inputs, folder / f"{name}.onnx", shapes=axes, dynamic=limits or usual)


def example(axes, dtype):
    sizes = [{"batch": 3, "n": 6, "m": 9}.get(axis) or int(axis) for axis in axes]
    if not dtype:
        return torch.randn(sizes)
    drawn = torch.randint(0, 2, sizes)
    return {"int64": drawn, "bool": drawn > 0, "ones": drawn.float()}[dtype]


def exporter(folder):
    """The function `export` of the package in `folder`, which is not installed here."""
    found = importlib.util.spec_from_file_location("exporting", Path(folder, "__init__.py"))
    sys.modules["exporting"] = exporting = importlib.util.module_from_spec(found)
    found.loader.exec_module(exporting)
    return exporting.export


def main(modules):
    helper, folder = sys.argv[1:]
    write(exporter(helper), Path(folder), modules)


if __name__ == "__main__":
    main(MODULES)
