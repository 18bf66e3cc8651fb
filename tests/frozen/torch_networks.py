"""Write files of whole PyTorch networks, of the families that physics uses, with PyTorch's answers, to a folder.

PYTHON_WITH_TORCH torch_networks.py EXPORT.py FOLDER
"""

import sys
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parent))  # Python's -I leaves it out
from torch_files import keeper, main

NETWORKS = {}
network = keeper(NETWORKS)


def settled(made):
    """`made` with statistics of batch normalizations as training leaves them."""
    for part in made.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            nn.init.normal_(part.running_mean, 0, 0.3)
            nn.init.uniform_(part.running_var, 0.5, 2)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.1)
    return made


def dense(*widths, last=False):
    layers = []
    for given, made in pairwise(widths):
        layers += [nn.Linear(given, made), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if last else layers))


class Tagger(nn.Module):
    """Three inputs: the jet, its tracks and its vertices, each set through 1x1 convolutions, as DeepJet's."""

    def __init__(self):
        super().__init__()
        self.tracks = nn.Sequential(nn.Conv1d(8, 16, 1), nn.ReLU(), nn.Dropout(0.1), nn.Conv1d(16, 6, 1), nn.ReLU())
        self.vertices = nn.Sequential(nn.Conv1d(5, 12, 1), nn.ReLU(), nn.Conv1d(12, 4, 1), nn.ReLU())
        self.norm = nn.BatchNorm1d(4)
        self.head = dense(4 + 6 * 10 + 4 * 3, 24, 24, 3, last=True)

    def forward(self, jet, tracks, vertices):
        parts = [self.norm(jet), self.tracks(tracks.mT).flatten(1), self.vertices(vertices.mT).flatten(1)]
        return self.head(torch.cat(parts, 1)).softmax(1)


@network(jet="batch,4", tracks="batch,10,8", vertices="batch,3,5")
def tagger_of_three():
    return settled(Tagger())


class Tower(nn.Module):
    """Each item through 1x1 convolutions of these widths, then the last state of a recurrent layer."""

    def __init__(self, kind, units, *widths, normed=False):
        super().__init__()
        layers = []
        for given, made in pairwise(widths):
            layers += [nn.Conv1d(given, made, 1), nn.ReLU(), *([nn.BatchNorm1d(made)] if normed else [])]
        self.embed = nn.Sequential(*layers)
        self.recur = kind(widths[-1], units, batch_first=True)

    def forward(self, x):
        return self.recur(self.embed(x.transpose(1, 2)).transpose(1, 2))[0][:, -1]


class Towers(nn.Module):
    """Eight inputs: as DeepTau's and DeepAK8's, of which six go through recurrent towers; two outputs."""

    def __init__(self, kind):
        super().__init__()
        self.widths = dict(charged=5, neutral=4, photons=6, electrons=3, muons=7, vertices=5)
        self.towers = nn.ModuleDict({name: Tower(kind, 8, width, 8) for name, width in self.widths.items()})
        self.kinds = nn.Embedding(6, 3)
        self.body = dense(4 + 3 + 8 * 6, 32, 16)
        self.flavour, self.mass = nn.Linear(16, 4), nn.Linear(16, 1)

    def forward(self, jet, kind, charged, neutral, photons, electrons, muons, vertices):
        sets = dict(
            charged=charged, neutral=neutral, photons=photons, electrons=electrons, muons=muons, vertices=vertices
        )
        parts = [tower(sets[name]) for name, tower in self.towers.items()]
        x = self.body(torch.cat([jet, self.kinds(kind.clamp(0, 5)), *parts], 1))
        return {"flavour": self.flavour(x).softmax(1), "mass": functional.softplus(self.mass(x))}


EIGHT = dict(
    jet="batch,4", kind="batch:int64", charged="batch,9,5", neutral="batch,6,4", photons="batch,5,6",
    electrons="batch,2,3", muons="batch,2,7", vertices="batch,4,5",
)  # fmt: skip


@network(**EIGHT)
def lstm_towers_of_eight():
    return Towers(nn.LSTM)


@network(**EIGHT)
def gru_towers_of_eight():
    return Towers(nn.GRU)


class Recurrent(nn.Module):
    """The last state of each direction that is there, by the mask: as packed sequences give it."""

    def __init__(self, kind, layers, both, width=6, units=8):
        super().__init__()
        self.recur = kind(width, units, layers, batch_first=True, bidirectional=both)
        self.units, self.both = units, both
        self.head = dense(2 * units if both else units, 12, 2, last=True)

    def forward(self, tracks, mask):
        steps = self.recur(tracks * mask[..., None])[0]
        last = (mask.sum(1).long() - 1).clamp(0, mask.shape[1] - 1)
        found = steps.gather(1, last[:, None, None].expand(-1, 1, steps.shape[-1]))[:, 0]
        if self.both:
            found = torch.cat([found[:, : self.units], steps[:, 0, self.units :]], 1)
        return self.head(found).log_softmax(1)


def traced(made, *shapes):
    """torch.export writes recurrent layers step by step: if the number of steps varies, TorchScript is the way."""
    return torch.jit.trace(made.eval(), tuple(map(torch.ones, shapes)))


@network(tracks="batch,n,6", mask="batch,n:ones")
def gru_tagger():
    return traced(Recurrent(nn.GRU, 1, False), (3, 6, 6), (3, 6))


@network(tracks="batch,n,6", mask="batch,n:ones")
def lstm_tagger():
    return traced(Recurrent(nn.LSTM, 2, False), (3, 6, 6), (3, 6))


@network(tracks="batch,12,6", mask="batch,12:ones")
def gru_of_two_directions():
    return Recurrent(nn.GRU, 1, True)


class Umami(nn.Module):
    """Deep sets: a network for each track, the mean of those that are there, a network for the sum."""

    def __init__(self):
        super().__init__()
        self.each, self.all = dense(7, 16, 12), dense(12 + 2, 16, 3, last=True)

    def forward(self, jet, tracks, mask):
        found = self.each(tracks).masked_fill(~mask[..., None], 0)
        mean = found.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        return self.all(torch.cat([jet, mean], 1)).softmax(-1)


@network(jet="batch,2", tracks="batch,n,7", mask="batch,n:bool")
def deep_sets():
    return Umami()


class EdgeConv(nn.Module):
    def __init__(self, k, width, widths):
        super().__init__()
        self.k = k
        pairs = list(zip([2 * width, *widths], widths, strict=False))
        self.layers = nn.ModuleList(nn.Conv2d(given, made, 1, bias=False) for given, made in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm2d(made) for made in widths)
        self.short = nn.Conv1d(width, widths[-1], 1, bias=False)
        self.short_norm = nn.BatchNorm1d(widths[-1])

    def forward(self, points, x):
        inner = -2 * points.mT @ points
        squares = (points**2).sum(1, keepdim=True)
        distances = -squares - inner - squares.mT
        places = distances.topk(self.k + 1, dim=-1)[1][..., 1:]
        batch, width, count = x.shape
        flat = (places + torch.arange(batch)[:, None, None] * count).reshape(-1)
        near = x.mT.reshape(-1, width)[flat].view(batch, count, self.k, width).permute(0, 3, 1, 2)
        own = x[..., None].expand(-1, -1, -1, self.k)
        found = torch.cat([own, near - own], 1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            found = norm(layer(found)).relu()
        return (self.short_norm(self.short(x)) + found.mean(-1)).relu()


class ParticleNet(nn.Module):
    """Two blocks of EdgeConv; the second one finds the nearest in its features. Empty places are moved far away."""

    def __init__(self, blocks=None, width=5, fused=16):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.blocks = nn.ModuleList(blocks or [EdgeConv(4, 5, [8, 8]), EdgeConv(4, 8, [12, 12])])
        made = sum(block.layers[-1].out_channels for block in self.blocks)
        self.fuse = nn.Sequential(nn.Conv1d(made, fused, 1, bias=False), nn.BatchNorm1d(fused), nn.ReLU())
        self.head = nn.Sequential(dense(fused, 12), nn.Dropout(0.1), nn.Linear(12, 2))

    def forward(self, points, features, mask):
        far = (mask == 0) * 1e3
        count = mask.sum(-1).clamp(min=1)
        x, found = self.norm(features) * mask, []
        for place, block in enumerate(self.blocks):
            x = block((x if place else points) + far, x) * mask
            found.append(x)
        x = self.fuse(torch.cat(found, 1)) * mask
        return self.head(x.sum(-1) / count).softmax(1)


@network(points="batch,2,n", features="batch,5,n", mask="batch,1,n:ones", limits="6<=n<=32")
def particle_net():
    return settled(ParticleNet())


@network(points="batch,2,12", features="batch,5,12", mask="batch,1,12:ones")
def particle_net_of_one_size():
    return settled(ParticleNet())


class ParticleTransformer(nn.Module):
    """Attention with a bias from features of pairs of particles, then of a class token to all particles."""

    def __init__(self, width=16, heads=4, blocks=2, classes=1, pairs=8):
        super().__init__()
        self.embed = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, width))
        self.pairs = nn.Sequential(
            nn.BatchNorm1d(3), nn.Conv1d(3, pairs, 1), nn.BatchNorm1d(pairs), nn.GELU(), nn.Conv1d(pairs, heads, 1)
        )
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.classes = nn.ModuleList(Block(width, heads) for _ in range(classes))
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.norm, self.head, self.heads = nn.LayerNorm(width), nn.Linear(width, 5), heads

    def pair_features(self, vectors):
        """Of (energy, px, py, pz): the logarithms of kT, of z and of the squared mass."""
        one, two = vectors[:, :, :, None], vectors[:, :, None, :]
        pt = (vectors[:, 1] ** 2 + vectors[:, 2] ** 2 + 1e-6).sqrt()
        least = torch.minimum(pt[:, :, None], pt[:, None, :])
        angle = torch.atan2(vectors[:, 2], vectors[:, 1] + 1e-6)
        delta = torch.remainder(angle[:, :, None] - angle[:, None, :] + torch.pi, 2 * torch.pi) - torch.pi
        both = one + two
        mass = both[:, 0] ** 2 - (both[:, 1:] ** 2).sum(1)
        found = [least * delta.abs(), least / (pt[:, :, None] + pt[:, None, :]), mass]
        return torch.stack([each.clamp(min=1e-4).log() for each in found], 1)

    def forward(self, particles, vectors, mask):
        batch, _, count = vectors.shape
        pairs = self.pairs(self.pair_features(vectors).flatten(2)).view(batch, self.heads, count, count)
        x = self.embed(particles.mT) * mask.mT
        empty = mask == 0
        bias = pairs.masked_fill(empty[:, :, None], -1e4)
        for block in self.blocks:
            x = block(x, x, bias)
        token = self.token.expand(batch, -1, -1)
        seen = functional.pad(torch.zeros_like(mask).masked_fill(empty, -1e4), (1, 0))[:, :, None]
        for block in self.classes:
            token = block(token, torch.cat([token, x], 1), seen)
        return self.head(self.norm(token[:, 0])).softmax(1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after, self.inner = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(2 * width)
        self.query, self.keys = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out, self.up, self.down = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, all_of, bias):
        keys, values = self.keys(self.before(all_of)).chunk(2, -1)
        attended = functional.scaled_dot_product_attention(
            self.split(self.query(self.before(x))), self.split(keys), self.split(values), attn_mask=bias
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(self.inner(functional.gelu(self.up(self.after(x)))))


@network(particles="batch,4,n", vectors="batch,4,n", mask="batch,1,n:ones", limits="2<=n<=24")
def particle_transformer():
    return settled(ParticleTransformer())


class InteractionNetwork(nn.Module):
    """The two matrices that say who sends and who receives are constants."""

    def __init__(self, count=8, width=5, edges=(12, 6), nodes=(12, 8)):
        super().__init__()
        pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
        self.register_buffer("senders", functional.one_hot(torch.tensor([a for a, _ in pairs]), count).float().T)
        self.register_buffer("receivers", functional.one_hot(torch.tensor([b for _, b in pairs]), count).float().T)
        self.edges, self.nodes = dense(2 * width, *edges), dense(width + edges[-1], *nodes)
        self.head = dense(nodes[-1], 8, 2, last=True)

    def forward(self, particles):
        pairs = torch.cat([particles @ self.receivers, particles @ self.senders], 1)
        effects = self.edges(pairs.mT).mT @ self.receivers.T
        return self.head(self.nodes(torch.cat([particles, effects], 1).mT).sum(1)).softmax(1)


@network(particles="batch,5,8")
def interaction_network():
    return InteractionNetwork()


class MessagePassing(nn.Module):
    """A graph of edges that are inputs: messages are added up by their receivers (scatter_add) and averaged."""

    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.message, self.update = dense(2 * width + 2, 12, width), nn.GRUCell(width, width)
        self.head = dense(2 * width + 2, 8, 1, last=True)

    def forward(self, nodes, edges, senders, receivers):
        x = self.embed(nodes).tanh()
        wide = x.shape[-1]
        one, two = (each.clamp(0, 5)[..., None].expand(-1, -1, wide) for each in (senders, receivers))
        for _ in range(2):
            sent = self.message(torch.cat([x.gather(1, one), x.gather(1, two), edges], -1))
            received = torch.zeros_like(x).scatter_add(1, two, sent)
            x = self.update(received.flatten(0, 1), x.flatten(0, 1)).view_as(x)
        return self.head(torch.cat([x.gather(1, one), x.gather(1, two), edges], -1)).sigmoid()[..., 0]


@network(nodes="batch,6,4", edges="batch,n,2", senders="batch,n:int64", receivers="batch,n:int64")
def graph_of_given_edges():
    return MessagePassing()


class GravNet(nn.Module):
    """The nearest in a learned space, by cdist written out, weighted by their distances; mean and maximum."""

    def __init__(self):
        super().__init__()
        self.space, self.flow, self.out = nn.Linear(5, 3), nn.Linear(5, 6), nn.Linear(17, 10)
        self.head = nn.Linear(10, 2)

    def forward(self, hits):
        space, flow = self.space(hits), self.flow(hits)
        distances = ((space[:, :, None] - space[:, None]) ** 2).sum(-1)
        far, places = distances.topk(5, dim=-1, largest=False)
        weight = torch.exp(-10 * far)[..., None]
        rows = torch.arange(hits.shape[0])[:, None, None]
        near = flow[rows, places] * weight
        x = torch.cat([hits, near.mean(2), near.amax(2)], -1)
        return self.head(self.out(x).tanh())


@network(hits="batch,14,5")
def grav_net():
    return GravNet()


class Residual1d(nn.Module):
    def __init__(self, given, made, stride):
        super().__init__()
        self.one, self.two = (
            nn.Conv1d(given, made, 3, stride, 1, bias=False), nn.Conv1d(made, made, 3, 1, 1, bias=False)
        )  # fmt: skip
        self.norms = nn.ModuleList([nn.BatchNorm1d(made), nn.BatchNorm1d(made)])
        self.short = nn.Sequential(nn.Conv1d(given, made, 1, stride, bias=False), nn.BatchNorm1d(made))

    def forward(self, x):
        found = self.norms[1](self.two(self.norms[0](self.one(x)).relu()))
        return (found + self.short(x)).relu()


@network(input="batch,2,32")
def resnet_1d():
    blocks = [Residual1d(2, 8, 1), Residual1d(8, 8, 2), Residual1d(8, 12, 2)]
    return settled(nn.Sequential(*blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 3)))


class Residual2d(nn.Module):
    def __init__(self, given, made, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(given, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU(),
            nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made),
        )  # fmt: skip
        self.short = (
            nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x):
        return (self.body(x) + self.short(x)).relu()


@network(input="batch,1,24,24")
def resnet():
    stem = [nn.Conv2d(1, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual2d(8, 8, 1), Residual2d(8, 12, 2)]
    return settled(nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 4)))


class Inverted(nn.Module):
    """Of MobileNet v3: wider, by channel, squeezed and excited, narrower."""

    def __init__(self, width, inner, kernel, stride):
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.Hardswish())
        self.each = nn.Sequential(
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False), nn.BatchNorm2d(inner)
        )
        self.excite = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, 4, 1), nn.ReLU(), nn.Conv2d(4, inner, 1), nn.Hardsigmoid()
        )
        self.narrow = nn.Sequential(nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))
        self.stride = stride

    def forward(self, x):
        found = self.each(self.wide(x))
        found = self.narrow(found * self.excite(found))
        return found + x if self.stride == 1 else found


@network(input="batch,3,20,20")
def mobile_net():
    stem = [nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6()]
    blocks = [Inverted(8, 16, 3, 1), Inverted(8, 16, 5, 2)]
    return settled(nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)))


class UNet(nn.Module):
    def __init__(self, one=6, two=10, three=12):
        super().__init__()
        self.down = nn.ModuleList([self.double(2, one), self.double(one, two)])
        self.bottom = self.double(two, three)
        self.rise = nn.ModuleList([nn.ConvTranspose2d(three, two, 2, 2), nn.Conv2d(two, one, 1)])
        self.up = nn.ModuleList([self.double(2 * two, two), self.double(2 * one, one)])
        self.head = nn.Conv2d(one, 1, 1)

    @staticmethod
    def double(given, made):
        return nn.Sequential(
            nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.LeakyReLU(0.1),
            nn.Conv2d(made, made, 3, padding=1), nn.BatchNorm2d(made), nn.LeakyReLU(0.1),
        )  # fmt: skip

    def forward(self, image):
        one = self.down[0](image)
        two = self.down[1](functional.max_pool2d(one, 2))
        x = self.rise[0](self.bottom(functional.max_pool2d(two, 2)))
        x = self.up[0](torch.cat([x, two], 1))
        x = functional.interpolate(self.rise[1](x), scale_factor=2, mode="bilinear", align_corners=True)
        return self.head(self.up[1](torch.cat([x, one], 1))).sigmoid()


@network(image="batch,2,16,16")
def u_net():
    return settled(UNet())


@network(x="batch,24")
def autoencoder():
    """The error of the reconstruction, as a trigger cuts on it, and the latent numbers."""

    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(24, 16), nn.ELU(), nn.Linear(16, 2 * 3))
            self.decode = nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 24))

        def forward(self, x):
            mean, spread = self.encode(x).chunk(2, -1)
            error = (self.decode(mean) - x).square().mean(-1)
            divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(-1)
            return {"loss": error + 0.1 * divergence, "latent": mean}

    return Coder()


@network(input="batch,1,16,16")
def convolutional_autoencoder():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, 2, 1), nn.SiLU(), nn.Conv2d(6, 8, 3, 2, 1), nn.SiLU(), nn.Flatten(), nn.Linear(128, 5),
        nn.Linear(5, 128), nn.Unflatten(1, (8, 4, 4)), nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), nn.SiLU(),
        nn.Upsample(scale_factor=2), nn.Conv2d(6, 1, 3, padding=1),
    )  # fmt: skip


@network(input="batch,1,8,10,12")
def calorimeter_of_conv3d():
    return settled(nn.Sequential(
        nn.Conv3d(1, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(6, 8, 3, padding=1),
        nn.ReLU(), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(8 * 2 * 2 * 3, 3),
    ))  # fmt: skip


class Encoder(nn.Module):
    """nn.TransformerEncoder with a padding mask; the mean over the particles that are there."""

    def __init__(self, first):
        super().__init__()
        self.embed = nn.Linear(5, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, norm_first=first, activation="gelu")
        self.encode = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, particles, mask):
        x = self.encode(self.embed(particles), src_key_padding_mask=mask < 0.5)
        return self.head((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)).softmax(1)


@network(particles="batch,n,5", mask="batch,n:ones")
def encoder_with_padding():
    return Encoder(True)


class Pooled(nn.Module):
    """Set transformer: learned queries attend, with the weights of the attention as an output."""

    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(3, 8))
        self.attend = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, particles):
        found, weights = self.attend(self.queries.expand(particles.shape[0], -1, -1), particles, particles)
        return {"score": self.head(found.flatten(1)), "weights": weights}


@network(particles="batch,9,6")
def pooling_by_attention():
    return Pooled()


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.RMSNorm(12), nn.Linear(12, 40), nn.GLU(), nn.SiLU(), nn.Linear(20, 12)) for _ in range(2)
        )
        self.tokens = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(10), nn.Linear(10, 16), nn.SiLU(), nn.Linear(16, 10)) for _ in range(2)
        )
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        for part, tokens in zip(self.parts, self.tokens, strict=True):
            x = x + part(x)
            x = x + tokens(x.mT).mT
        return self.head(x.mean(1))


@network(x="batch,10,12")
def gated_mixer():
    return Gated()


class Quantiles(nn.Module):
    """Quantiles that do not cross: a first one and positive steps; inputs are standardized by buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.randn(10))
        self.register_buffer("deviation", torch.rand(10) + 0.5)
        self.body = nn.Sequential(nn.Linear(10, 20), nn.SELU(), nn.Linear(20, 20), nn.Mish(), nn.Linear(20, 5))

    def forward(self, x):
        first, steps = self.body(((x - self.mean) / self.deviation).clamp(-5, 5)).split([1, 4], -1)
        found = torch.cat([first, first + functional.softplus(steps).cumsum(-1)], -1)
        return {"quantiles": found, "median": found[:, 2], "width": found[:, -1] - found[:, 0]}


@network(x="batch,10")
def quantiles():
    return Quantiles()


@network(input="batch,200")
def wide_dense():
    widths = [200, 256, 256, 128]
    blocks = [
        nn.Sequential(nn.Linear(given, made), nn.BatchNorm1d(made), nn.LeakyReLU(0.1))
        for given, made in pairwise(widths)
    ]
    return settled(nn.Sequential(*blocks, nn.Linear(128, 10), nn.Softmax(1)))


class Temporal(nn.Module):
    """A WaveNet-like stack of causal dilated convolutions with gates, and sums of what is skipped."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.gates = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**level) for level in range(3))
        self.outs = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(8, 2, 1))

    def forward(self, signal):
        x, total = self.first(signal), 0
        for level, (gate, out) in enumerate(zip(self.gates, self.outs, strict=True)):
            one, two = gate(functional.pad(x, (2**level, 0))).chunk(2, 1)
            found = out(one.tanh() * two.sigmoid())
            x, total = x + found, total + found
        return self.head(total)


@network(signal="batch,1,n", limits="6<=n<=48")
def temporal_convolutions():
    return Temporal()


class Flow(nn.Module):
    """Affine couplings and their logarithm of the determinant: the density of a normalizing flow."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(dense(3, 12, 6, last=True) for _ in range(3))

    def forward(self, x):
        total = torch.zeros(x.shape[0])
        for net in self.nets:
            kept, moved = x.chunk(2, -1)
            scale, shift = net(kept).chunk(2, -1)
            scale = scale.tanh()
            x = torch.cat([moved * scale.exp() + shift, kept], -1).flip(-1)
            total = total + scale.sum(-1)
        return total - 0.5 * (x.square() + 1.8378770664).sum(-1)


@network(x="batch,6")
def normalizing_flow():
    return Flow()


class Capsule(nn.Module):
    """Object condensation's end: the strongest candidates by topk and gather, and a cross product of directions."""

    def __init__(self):
        super().__init__()
        self.score, self.vector = dense(6, 10, 1, last=True), nn.Linear(6, 3)

    def forward(self, candidates):
        scores = self.score(candidates)[..., 0]
        best, places = scores.sigmoid().topk(3)
        vectors = functional.normalize(self.vector(candidates), dim=-1)
        chosen = vectors.gather(1, places[..., None].expand(-1, -1, 3))
        return {"scores": best, "vectors": chosen, "normal": torch.linalg.cross(chosen[:, 0], chosen[:, 1])}


@network(candidates="batch,n,6", limits="4<=n<=40")
def best_candidates():
    return Capsule()


if __name__ == "__main__":
    main(NETWORKS)
