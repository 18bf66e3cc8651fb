"""Write the networks that benchmarks/onnx_networks.py measures, each as an ONNX file with its spec.

    PYTHON torch_models.py FOLDER [NAME...]       in a Python that has PyTorch, onnx and onnxscript

The networks are those of tests/frozen/torch_networks.py in sizes that experiments use, with 30 items in each set.
PyTorch's helper of this tool exports them; layers of recurrent networks stay whole only through TorchScript.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT), str(ROOT / "tests" / "frozen")]  # Python's -I leaves them out

import torch  # noqa: E402 (after the path to the checkout)
import torch_networks as blocks  # noqa: E402
from torch import nn  # noqa: E402
from torch_files import keeper, write  # noqa: E402
from torch_networks import dense, settled, traced  # noqa: E402

from tfaot_pkg.export import export  # noqa: E402

SPEC = """\
model:
  name: {name}
  version: "1.0.0"
  torch: {name}.onnx
  description: {description}
compilation:
  batch_sizes: [1, 16, 64]
validation:
  rtol: 1e-3
  atol: 1e-5
"""

NETWORKS = {}
network = keeper(NETWORKS)
SET = dict(tracks="batch,30,16", mask="batch,30:ones")


def recurrent(kind, layers, both, units):
    return traced(blocks.Recurrent(kind, layers, both, 16, units), (3, 30, 16), (3, 30))


@network(**SET)
def gru_tagger():
    """A GRU of 64 in two layers"""
    return recurrent(nn.GRU, 2, False, 64)


@network(**SET)
def lstm_tagger():
    """An LSTM of 100"""
    return recurrent(nn.LSTM, 1, False, 100)


@network(**SET)
def lstm_both_ways():
    """An LSTM of 50 in two layers and both directions"""
    return recurrent(nn.LSTM, 2, True, 50)


@network(**SET)
def gru_both_ways():
    """A GRU of 25 in both directions"""
    return recurrent(nn.GRU, 1, True, 25)


class Jet(nn.Module):
    """Numbers of a jet, and sets, each of which goes through a tower. `forward` names them: traced names are kept."""

    def __init__(self, towers, *widths):
        super().__init__()
        self.towers, self.head = nn.ModuleList(towers), dense(*widths, last=True)

    def scores(self, jet, *sets):
        found = [tower(x) for tower, x in zip(self.towers, sets, strict=True)]
        return self.head(torch.cat([jet, *found], 1)).softmax(1)


class Towers(Jet):
    def forward(self, jet, a, b, c, d, e, f, g, h, i, j):
        return self.scores(jet, a, b, c, d, e, f, g, h, i, j)


@network(jet="batch,10", **dict.fromkeys("abcdefghij", "batch,30,8"))
def lstm_towers():
    """Ten towers of a convolution and an LSTM of 50"""
    towers = [blocks.Tower(nn.LSTM, 50, 8, 32) for _ in range(10)]
    return traced(Towers(towers, 10 + 10 * 50, 200, 100, 6), (3, 10), *[(3, 30, 8)] * 10)


class DeepJet(Jet):
    def forward(self, jet, charged, neutral, vertices):
        return self.scores(jet, charged, neutral, vertices)


@network(jet="batch,15", charged="batch,25,16", neutral="batch,25,8", vertices="batch,4,14")
def deep_jet():
    """Four inputs; convolutions and LSTMs of 150, 50 and 50, seven dense layers"""
    widths = (150, 16, 64, 32, 32, 8), (50, 8, 32, 16, 4), (50, 14, 64, 32, 32, 8)
    towers = [blocks.Tower(nn.LSTM, *each, normed=True) for each in widths]
    made = settled(DeepJet(towers, 15 + 250, 200, *[100] * 5, 6))
    return traced(made, (3, 15), (3, 25, 16), (3, 25, 8), (3, 4, 14))


@network(input="batch,20,30")
def resnet_1d():
    """Six residual blocks of 64 and 128 channels"""
    widths = (20, 64, 64, 64, 128, 128, 128)
    body = [blocks.Residual1d(given, made, 1) for given, made in pairwise(widths)]
    return settled(nn.Sequential(*body, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 4)))


@network(points="batch,2,30", features="batch,7,30", mask="batch,1,30:ones")
def particle_net():
    """Two edge convolutions over the 16 nearest, of 32 and 64 channels"""
    return settled(blocks.ParticleNet([blocks.EdgeConv(16, 7, [32] * 3), blocks.EdgeConv(16, 32, [64] * 3)], 7, 128))


@network(particles="batch,4,30", vectors="batch,4,30", mask="batch,1,30:ones")
def particle_transformer():
    """Attention of 8 heads with pair features: 4 blocks of 64 and 2 of a class token"""
    return settled(blocks.ParticleTransformer(64, 8, 4, 2, 64))


@network(particles="batch,16,30")
def interaction_network():
    """870 edges between 30 particles"""
    return blocks.InteractionNetwork(30, 16, (60, 30, 20), (60, 30, 24))


class Yolo(nn.Module):
    """A backbone and the head of a detector: boxes are decoded with a grid and anchors."""

    def __init__(self):
        super().__init__()
        parts = []
        for given, made in ((3, 16), (16, 32), (32, 64)):
            parts += [nn.Conv2d(given, made, 3, 2, 1, bias=False), nn.BatchNorm2d(made), nn.SiLU()]
        self.body, self.head = nn.Sequential(*parts), nn.Conv2d(64, 3 * 9, 1)
        self.register_buffer("anchors", torch.tensor([[10.0, 13], [16, 30], [33, 23]]).view(1, 3, 1, 1, 2))

    def forward(self, image):
        found = self.head(self.body(image))
        _, _, rows, columns = found.shape
        found = found.view(-1, 3, 9, rows, columns).permute(0, 1, 3, 4, 2).sigmoid()
        grid = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")[::-1], -1)
        places, sizes = (found[..., :2] * 2 - 0.5 + grid) * 8, (found[..., 2:4] * 2) ** 2 * self.anchors
        return torch.cat((places, sizes, found[..., 4:]), -1).flatten(1, 3)


@network(image="batch,3,64,64")
def yolo_head():
    """Three convolutions with SiLU, and decoded boxes, on 64 x 64 pixels"""
    return settled(Yolo())


@network(image="batch,2,32,32")
def u_net():
    """A U-Net of 16, 32 and 64 channels on 32 x 32 pixels"""
    return settled(blocks.UNet(16, 32, 64))


@network(input="batch,3,32,32")
def mobile_net():
    """Four inverted residuals with squeeze and excitation on 32 x 32 pixels"""
    stem = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
    body = [blocks.Inverted(16, 64, kernel, stride) for kernel, stride in ((3, 1), (5, 2), (5, 1), (3, 1))]
    return settled(nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)))


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(NETWORKS)
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        write(export, folder / name, {name: NETWORKS[name]})
        text = SPEC.format(name=name, description=f'"{NETWORKS[name][0].__doc__}"')
        (folder / name / "spec.yaml").write_text(text)


if __name__ == "__main__":
    main()
