"""Write the networks that onnx_networks.py and precision.py measure, each as an ONNX file with its spec.

    PYTHON torch_models.py FOLDER [NAME...]       in a Python that has PyTorch, onnx and onnxscript

First the networks of tests/frozen/torch_networks.py in sizes that experiments use, with 30 items in each set, then
those whose precision may be reduced. PyTorch's helper of this tool exports them; layers of recurrent networks stay
whole only through TorchScript.
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


def layers(width, count, outputs=10):
    return dense(*[width] * (count + 1), outputs, last=True)


@network(input="batch,64")
def mlp_64():
    """Four dense layers of 64 and one of 10"""
    return layers(64, 4)


@network(input="batch,512")
def mlp_512():
    """Four dense layers of 512 and one of 10"""
    return layers(512, 4)


@network(input="batch,2048")
def mlp_2048():
    """Four dense layers of 2048 and one of 10"""
    return layers(2048, 4)


def normed(given, made, side=3, stride=1):
    return [nn.Conv2d(given, made, side, stride, side // 2, bias=False), nn.BatchNorm2d(made)]


class Residual(nn.Module):
    """ReLU of the sum of two branches: convolutions of `parts` (filters, side), the first 3x3 one with the stride."""

    def __init__(self, given, *parts, stride=1):
        super().__init__()
        made, branch, left = given, [], stride
        for filters, side in parts:
            branch += [*normed(made, filters, side, left if side == 3 else 1), nn.ReLU()]
            made, left = filters, 1 if side == 3 else left
        self.branch = nn.Sequential(*branch[:-1])
        self.beside = nn.Sequential(*(normed(given, made, 1, stride) if given != made else []))

    def forward(self, x):
        return torch.relu(self.branch(x) + self.beside(x))


def head(channels, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


@network(input="batch,3,32,32")
def conv_net():
    """Two 3x3 convolutions of 32, a pool, one of 64, a pool, and a dense layer, of images of 32 x 32"""
    parts = [nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
    parts += [nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 8 * 8, 10)]
    return nn.Sequential(*parts)


@network(input="batch,3,32,32")
def res_net():
    """Two residual blocks of 32 and two of 64 channels, of images of 32 x 32"""
    body = [Residual(32, (32, 3), (32, 3)), Residual(32, (32, 3), (32, 3)), nn.MaxPool2d(2)]
    body += normed(32, 64) + [nn.ReLU()] + [Residual(64, (64, 3), (64, 3)) for _ in range(2)]
    return settled(nn.Sequential(*normed(3, 32), nn.ReLU(), *body, *head(64, 10)))


@network(input="batch,3,32,32")
def resnet_20():
    """ResNet-20: nine residual blocks of 16, 32 and 64 channels, of images of 32 x 32"""
    body, given = [], 16
    for width in (16, 32, 64):
        for place in range(3):
            body.append(Residual(given, (width, 3), (width, 3), stride=1 if place or width == 16 else 2))
            given = width
    return settled(nn.Sequential(*normed(3, 16), nn.ReLU(), *body, *head(64, 10)))


@network(input="batch,3,224,224")
def resnet_50():
    """ResNet-50, of images of 224 x 224"""
    body, given = [], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(count):
            body.append(Residual(given, (width, 1), (width, 3), (4 * width, 1), stride=1 if place else stride))
            given = 4 * width
    return settled(nn.Sequential(*normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *body, *head(given, 1000)))


class Block(nn.Module):
    """A block of a transformer: attention and two dense layers, both behind normalizations, with residual sums."""

    def __init__(self, width, heads, *, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.joined, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        _, tokens, width = x.shape
        parts = self.joined(self.before(x)).view(-1, tokens, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        made = nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        x = x + self.out(made.transpose(1, 2).reshape(-1, tokens, width))
        return x + self.mlp(x)


class Vit(nn.Module):
    def __init__(self, width, heads, blocks):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, width, 16, 16), nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.body = nn.Sequential(*[Block(width, heads) for _ in range(blocks)], nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.body(x)[:, 0])


@network(image="batch,3,224,224")
def vit():
    """A vision transformer (DeiT-T): 12 blocks of 192, 3 heads, 197 tokens"""
    return Vit(192, 3, 12)


@network(x="batch,64,256")
def gpt_layer():
    """A block of a language model: 64 tokens of 256, 8 heads, causal"""
    return Block(256, 8, causal=True)


class Tcn(nn.Module):
    """Causal dilated convolutions with residual sums, and the last step."""

    def __init__(self, given, width, dilations):
        super().__init__()
        self.first = nn.Conv1d(given, width, 1)
        self.parts = nn.ModuleList([nn.Conv1d(width, width, 3, dilation=each) for each in dilations])
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.first(x)
        for part in self.parts:
            before = nn.functional.pad(x, (2 * part.dilation[0], 0))
            x = torch.relu(part(before)) + x
        return self.head(x[:, :, -1])


@network(x="batch,16,128")
def tcn():
    """A temporal convolutional network: 128 steps, six convolutions of 64 channels, dilated by 1 to 32"""
    return Tcn(16, 64, [2**i for i in range(6)])


class ConvNext(nn.Module):
    """A block: a 7x7 convolution of each channel, a normalization of channels, two dense layers."""

    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        return x + (self.mlp(self.depthwise(x).permute(0, 2, 3, 1)) * self.scale).permute(0, 3, 1, 2)


@network(input="batch,3,64,64")
def convnext():
    """ConvNeXt: two blocks each of 40, 80 and 160 channels, of images of 64 x 64"""
    parts, given = [nn.Conv2d(3, 40, 4, 4)], 40
    for width in (40, 80, 160):
        parts += [nn.Conv2d(given, width, 2, 2)] if given != width else []
        parts += [ConvNext(width), ConvNext(width)]
        given = width
    return nn.Sequential(*parts, *head(160, 100))


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(NETWORKS)
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        write(export, folder / name, {name: NETWORKS[name]})
        text = SPEC.format(name=name, description=f'"{NETWORKS[name][0].__doc__}"')
        (folder / name / "spec.yaml").write_text(text)


if __name__ == "__main__":
    main()
