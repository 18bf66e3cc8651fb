"""Write .aten files of PyTorch modules, with PyTorch's answers, to a folder.

    PYTHON_WITH_TORCH torch_modules.py EXPORT.py FOLDER [NAME ...]

Beside the modules here, those of tests/frozen: all but TorchScript, which has no such file.
"""

import functools
import math
import sys
from itertools import chain, pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "frozen"))
import torch_files
import torch_networks

MODULES = {}
module = torch_files.keeper(MODULES)
Calls, CallsWithTwo = torch_files.Calls, torch_files.CallsWithTwo


# -- what ONNX does not say, or says so that nobody can read it ----------------------------------------------------


@module(x="batch,n,2", limits="n<=12")
def positions_by_row():
    """The mask of a language model: positions, the same in each row, are read at the number of the row."""

    def call(_, x):
        rows, steps = x.shape[:2]
        row, step = torch.arange(rows)[:, None, None], torch.arange(steps)
        position = step.expand(rows, -1)
        seen = position[row, step[None, :, None]] >= position[row, step[None, None, :]]
        scores = (x @ x.mT).masked_fill(~seen, -torch.inf)
        return scores.softmax(-1) @ x

    return Calls(call)


@module(x="batch,n", limits="n<=12")
def halves_and_quarters():
    """Ranges whose limits or steps are no whole numbers."""

    def call(_, x):
        size = x.shape[1]
        halves, quarters = torch.arange(0, size, 0.5), torch.arange(-0.5, size, 0.25)
        return {"halves": x[:, :1] + halves, "quarters": x[:, :1] * quarters}

    return Calls(call)


@module(x="batch,n", limits="n<=12")
def spaced_numbers():
    """As many as an axis has, also one."""

    def call(_, x):
        size = x.shape[1]
        falling = torch.linspace(3, 0.5, steps=size, dtype=torch.float32)
        return {"rising": x * torch.linspace(-1, 1, size), "falling": x[:, :1] + falling}

    return Calls(call)


@module(x="batch,9")
def stable_order():
    """Equal numbers, of which the first comes first."""

    def call(_, x):
        rounded = torch.round(x)
        order = torch.argsort(rounded, dim=1, stable=True)
        return {"order": order, "sorted": torch.gather(x, 1, order), "down": torch.sort(x, 1, descending=True)[1]}

    return Calls(call)


@module(x="batch,n,4")
def projected_lstm():
    made = nn.LSTM(4, 6, num_layers=2, bidirectional=True, proj_size=3, batch_first=True)

    def call(parts, x):
        steps, (hidden, cell) = parts["a"](x)
        return {"steps": steps, "hidden": hidden.transpose(0, 1), "cell": cell.transpose(0, 1)}

    return Calls(call, a=made)


@module(x="batch,6:int64")
def bags():
    parts = {mode: nn.EmbeddingBag(5, 3, mode=mode, padding_idx=pad) for mode, pad in
             (("sum", None), ("mean", 1), ("max", None))}  # fmt: skip
    return Calls(lambda parts, x: torch.cat([each(x) for each in parts.values()], 1), **parts)


@module(x="20:int64")
def bags_of_any_length():
    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.EmbeddingBag(5, 3, mode=mode) for mode in ("sum", "mean", "max"))
            self.register_buffer("offsets", torch.tensor([0, 3, 3, 11]))

        def forward(self, x):
            return torch.cat([each(x, self.offsets) for each in self.parts], 1)

    return Bags()


class Latents(nn.Module):
    """A few learned queries attend to as many particles as there are (Perceiver)."""

    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(4, 8))
        self.attend, self.norm = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8)
        self.embed, self.head = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, particles):
        x = self.embed(particles)
        queries = self.latents.unsqueeze(0).expand(x.shape[0], -1, -1)
        found = self.attend(queries, x, x, need_weights=False)[0]
        return self.head(self.norm(found + queries).mean(1))


@module(particles="batch,n,5")
def learned_latents():
    return Latents()


class ClassToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        token = self.token.expand(x.shape[0], -1, -1)
        return self.head(self.layer(torch.cat([token, x], 1))[:, :1].squeeze(1))


@module(x="batch,n,8")
def class_token():
    return ClassToken()


@module(x="batch,n,3", limits="5<=n<=9")
def neighbours():
    """The nearest by torch.cdist, and as many of them as there are, up to a limit."""

    def call(_, x):
        far = torch.cdist(x, x)
        near, places = far.topk(min(x.shape[1], 54), dim=-1, largest=False)
        return {"near": near[..., :4], "mean": near.mean(-1), "places": places[..., 1]}

    return Calls(call)


@module(x="batch,n,3", limits="4<=n<=60")
def distances_of_many():
    """PyTorch computes those of more than 25 points in another way."""

    def call(_, x):
        near, places = torch.cdist(x, x).topk(4, largest=False)
        row = torch.arange(x.shape[0])[:, None, None]
        return (x[row, places] - x[:, :, None]).mul(near.neg().softmax(-1)[..., None]).sum(2)

    return Calls(call)


@module(x="batch,7")
def distances():
    def call(_, x):
        one, two = x.reshape(-1, 7, 1), (x * 2 + 1)[:, :4, None]
        parts = [torch.cdist(one, two, p=p).sum(2) for p in (1.0, 3.0, float("inf"))]
        return torch.cat([*parts, functional.pairwise_distance(x, x + 1)[:, None]], 1)

    return Calls(call)


# -- order and search ----------------------------------------------------------------------------------------------


@module(x="batch,6")
def buckets():
    class Buckets(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("edges", torch.tensor([-1.0, -0.25, 0.0, 0.5, 1.5]))
            self.embed = nn.Embedding(6, 3)

        def forward(self, x):
            right = torch.bucketize(x, self.edges, right=True)
            return {"embedded": self.embed(torch.bucketize(x, self.edges)).sum(1), "right": right}

    return Buckets()


@module(x="batch,4", y="batch,9")
def search_in_rows():
    def call(_, x, y):
        limits = y.sort(1)[0]
        return {"left": torch.searchsorted(limits, x), "right": torch.searchsorted(limits, x, side="right")}

    return CallsWithTwo(call)


class Spline(nn.Module):
    """Monotone and piecewise linear, with learned knots: the coupling of a spline flow."""

    def __init__(self, knots=6):
        super().__init__()
        self.net = torch_networks.dense(2, 12, 2 * knots, last=True)
        self.knots = knots

    def forward(self, x):
        kept, moved = x.chunk(2, -1)
        widths, heights = self.net(kept).reshape(-1, 2, self.knots).softmax(-1).unbind(1)
        left, low = (functional.pad(each.cumsum(-1), (1, 0)) for each in (widths, heights))
        point = moved[:, :1].sigmoid()
        place = (torch.searchsorted(left, point, right=True) - 1).clamp(0, self.knots - 1)
        taken = [each.gather(1, place) for each in (left, low, widths, heights)]
        slope = taken[3] / taken[2]
        return torch.cat([taken[1] + (point - taken[0]) * slope, slope.log(), kept], -1)


@module(x="batch,4")
def spline():
    return Spline()


@module(x="batch,5,3", y="batch,n")
def medians():
    def call(_, x, y):
        values, places = x.median(1)
        below = torch.minimum(y.median(1, keepdim=True)[0], torch.tensor(y.shape[1]))
        return {"values": values, "places": places, "below": below}

    return CallsWithTwo(call)


@module(x="batch,6")
def mixture_density():
    """Distributions check their parameters, unless they are exported."""

    def call(_, x):
        weights = torch.distributions.Categorical(logits=x[:, :2])
        parts = torch.distributions.Normal(x[:, 2:4], functional.softplus(x[:, 4:]))
        found = torch.distributions.MixtureSameFamily(weights, parts)
        return {"mean": found.mean, "variance": found.variance, "density": found.log_prob(x[:, 0])}

    return Calls(call)


@module(x="batch,8")
def extremes():
    def call(_, x):
        values, places = x.max(1)
        return {
            "values": values, "places": places, "least": x.argmin(1, keepdim=True), "all": x.reshape(-1, 2, 4).amin(1),
            "pair": torch.minimum(x[:, :4], x[:, 4:]), "any": (x > 1).any(1), "every": (x > -3).all(1),
        }  # fmt: skip

    return Calls(call)


# -- graphs --------------------------------------------------------------------------------------------------------


class Graph(nn.Module):
    """Edges are inputs: messages by gather, sums, means and maxima by their receivers."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(8, 6), nn.Linear(22, 3)

    def forward(self, nodes, senders, receivers):
        sent = self.message(torch.cat([nodes[senders], nodes[receivers]], 1)).relu()
        index = receivers[:, None].expand_as(sent)
        zeros = nodes.new_zeros(nodes.shape[0], 6)
        found = [
            zeros.index_add(0, receivers, sent),
            zeros.scatter_reduce(0, index, sent, "mean", include_self=False),
            zeros.scatter_reduce(0, index, sent, "amax"),
        ]
        return self.update(torch.cat([nodes, *found], 1))


@module(nodes="n,4", senders="m:int64", receivers="m:int64", limits=("2<=n<=20", "2<=m<=40"))
def graph():
    return Graph()


@module(x="batch,5,4")
def edges_of_a_fixed_graph():
    def call(_, x):
        senders, receivers = torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 0, 1, 4, 2, 2])
        summed = x.clone().index_put((torch.tensor([1, 3]),), torch.ones(4)) if x.shape[0] == 0 else x
        made = torch.zeros_like(x).index_add(1, receivers, summed[:, senders], alpha=0.5)
        written = x.index_copy(1, torch.tensor([0, 2]), x[:, 3:5])
        return torch.cat([made, written, x.scatter(1, torch.zeros(1, 1, 4).long().expand(x.shape[0], 1, 4), 7.0)], 1)

    return Calls(call)


# -- attention -----------------------------------------------------------------------------------------------------


class Rotary(nn.Module):
    def __init__(self, width=12, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def rotated(self, x):
        half = x.shape[-1] // 2
        frequency = 100.0 ** (-torch.arange(half) / half)
        angle = torch.arange(x.shape[-2])[:, None] * frequency
        one, two = x[..., :half], x[..., half:]
        return torch.cat([one * angle.cos() - two * angle.sin(), one * angle.sin() + two * angle.cos()], -1)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        found = functional.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        return self.out(found.transpose(1, 2).flatten(2))


@module(x="batch,n,12")
def rotary_attention():
    return Rotary()


@module(x="batch,5,8", y="batch,5,5:ones")
def attention_of_groups():
    """Fewer keys than queries (enable_gqa), and a mask in which a query may have no key at all."""

    def call(_, x, y):
        query = x.reshape(-1, 5, 4, 2).transpose(1, 2)
        keys = x[..., :4].reshape(-1, 5, 2, 2).transpose(1, 2)
        mask = (y > 0.5)[:, None]
        found = functional.scaled_dot_product_attention(query, keys, keys, attn_mask=mask, enable_gqa=True, scale=0.4)
        return found.transpose(1, 2).flatten(2)

    return CallsWithTwo(call)


@module(x="batch,6,8")
def attention_with_weights():
    def call(parts, x):
        mask = nn.Transformer.generate_square_subsequent_mask(6)
        found, weights = parts["a"](x, x, x, attn_mask=mask, average_attn_weights=False)
        return {"found": found, "weights": weights}

    return Calls(call, a=nn.MultiheadAttention(8, 2, batch_first=True))


@module(x="batch,4,8", y="batch,n,8")
def transformer_decoder():
    layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True, activation="gelu")
    return CallsWithTwo(lambda parts, x, y: parts["a"](x, y), a=nn.TransformerDecoder(layer, 2))


@module(x="batch,n,6")
def linear_attention():
    """Running sums over a symbolic axis."""

    def call(parts, x):
        q, k, v = parts["a"](x).chunk(3, -1)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        state = (k[..., None] * v[..., None, :]).cumsum(1)
        return torch.einsum("bni,bnij->bnj", q, state) / (q * k.cumsum(1)).sum(-1, keepdim=True)

    return Calls(call, a=nn.Linear(6, 18))


# -- complex numbers -----------------------------------------------------------------------------------------------


@module(x="batch,3,12")
def fourier_transforms():
    def call(_, x):
        row = x.flatten(1)
        half = torch.fft.rfft(x, norm="ortho")
        return {
            "lengths": torch.cat([torch.fft.rfft(row, n=n).abs() for n in (1, 2, 3, 16, 36, 50, 131)], 1),
            "whole": torch.view_as_real(torch.fft.ifft(torch.fft.fft(x, dim=1) * 1j, n=40)),
            "plane": torch.fft.fft2(x).real + torch.fft.irfft2(torch.fft.rfft2(x, norm="forward"), s=(3, 12)),
            "back": torch.cat([torch.fft.irfft(half, n=n) for n in (1, 2, 11, 12, 30)], 2),
            "shifted": torch.fft.fftshift(torch.fft.fft(x), dim=2).abs(), "even": torch.fft.hfft(half, n=12),
            "least": torch.view_as_real(torch.fft.ihfft(x).resolve_conj()),
        }  # fmt: skip

    return Calls(call)


@module(x="batch,96")
def spectrogram():
    """Decibels in bands of frequencies, and the signal from its short-time spectra."""

    class Spectrogram(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("window", torch.hann_window(24))
            self.register_buffer("bands", torch.rand(13, 5))

        def forward(self, x):
            spectra = torch.stft(x, 24, 8, window=self.window, return_complex=True)
            power = (spectra.abs().pow(2).mT @ self.bands).clamp(min=1e-4).log10()
            loudest = power.amax((1, 2), keepdim=True)
            return {
                "bands": torch.maximum(power, loudest - 8),
                "signal": torch.istft(spectra, 24, 8, window=self.window),
            }

    return Spectrogram()


@module(x="batch,32,4")
def diagonal_state_space():
    """S4D: the kernel is computed of complex parameters, and convolved by Fourier transforms."""

    class StateSpace(nn.Module):
        def __init__(self, channels=4, states=6):
            super().__init__()
            self.step = nn.Parameter(-3 * torch.rand(channels) - 1)
            self.gain = nn.Parameter(torch.randn(channels, states, dtype=torch.complex64))
            self.decay = nn.Parameter(torch.full((channels, states), -0.7))
            self.turn = nn.Parameter(math.pi * torch.arange(float(states)).expand(channels, -1))
            self.out = nn.Linear(channels, 8)

        def forward(self, x):
            length, step = x.shape[1], self.step.exp()[:, None]
            pole = -self.decay.exp() + 1j * self.turn
            gain = self.gain * (torch.exp(pole * step) - 1.0) / pole
            kernel = (
                2 * torch.einsum("cs,csl->cl", gain, torch.exp((pole * step)[..., None] * torch.arange(length))).real
            )
            product = torch.fft.rfft(x.mT, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
            return self.out(functional.gelu(torch.fft.irfft(product, n=2 * length)[..., :length].mT))

    return StateSpace()


class FourierLayer(nn.Module):
    """A neural operator: learned complex products of the lowest frequencies."""

    def __init__(self, width=4, modes=5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat))
        self.gate = nn.Linear(9, 9, dtype=torch.cfloat)
        self.local, self.modes = nn.Conv1d(width, width, 1), modes

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        low = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.weight)
        mixed = torch.cat([low, self.gate(spectrum)[..., self.modes :]], -1)
        return functional.gelu(torch.fft.irfft(mixed, n=x.shape[-1]) + self.local(x))


@module(x="batch,4,16")
def fourier_layer():
    return FourierLayer()


@module(x="batch,9")
def complex_arithmetic():
    def call(_, x):
        z = torch.complex(x, x.flip(1) * 0.5)
        found = [
            z + 1, z - 2j, 3 - z, z / (1 + 2j), z / 2, 1 / z, z * z, -z, z**2, z.exp(), z.log(), z * x, x * z, z + x,
            x / z, z / z.flip(1), z.conj() * z.roll(1, 1), torch.cat([z[:, 1:], z[:, :1]], 1), z.sum(1, keepdim=True) + z,
            torch.where(x > 0, z, z * 2), z.mean(1, keepdim=True).expand_as(z), torch.polar(x.abs(), x), z.cumsum(1),
        ]  # fmt: skip
        return {
            "found": torch.view_as_real(torch.stack(found, 1)), "norm": torch.linalg.vector_norm(z, dim=1),
            "size": z.abs() + (z * 1e30).abs() * 1e-30 + (z * 1e-30).abs() * 1e30, "angle": z.angle(),
        }  # fmt: skip

    return Calls(call)


# -- recurrent -----------------------------------------------------------------------------------------------------


@module(x="n,batch,4")
def simple_recurrent():
    parts = {"tanh": nn.RNN(4, 5, num_layers=2), "relu": nn.RNN(4, 5, nonlinearity="relu", bias=False)}
    return Calls(lambda parts, x: torch.cat([each(x)[0] for each in parts.values()], 2).transpose(0, 1), **parts)


@module(x="batch,n,4", y="batch,n:ones")
def gru_with_lengths():
    """The last step that is there, and one cell."""

    def call(parts, x, y):
        steps = parts["a"](x)[0]
        last = (y.cumsum(1).amax(1).long() - 1).clamp(min=0)
        found = steps.gather(1, last[:, None, None].expand(-1, 1, 12))[:, 0]
        return parts["b"](found, found[:, :3])

    return CallsWithTwo(call, a=nn.GRU(4, 6, num_layers=2, batch_first=True, bidirectional=True), b=nn.GRUCell(12, 3))


@module(x="batch,5,4")
def lstm_with_states():
    def call(parts, x):
        start = (x[:, 0].mean(1)[None, :, None].expand(1, -1, 6), torch.ones(1, x.shape[0], 6))
        steps, (hidden, cell) = parts["a"](x, start)
        return {"steps": steps, "cell": cell[0], "next": parts["b"](x[:, 0], (hidden[0], cell[0]))[0]}

    return Calls(call, a=nn.LSTM(4, 6, batch_first=True, bias=False), b=nn.LSTMCell(4, 6))


# -- images --------------------------------------------------------------------------------------------------------


@module(x="batch,3,6,7")
def resampling():
    def call(_, x):
        parts = [
            functional.interpolate(x, size=(9, 4), mode="bicubic", align_corners=False),
            functional.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True),
            functional.interpolate(x, size=(5, 11), mode="nearest"),
            functional.interpolate(x, scale_factor=(0.7, 1.3), mode="bilinear"),
            functional.interpolate(x[:, :, 0], scale_factor=2, mode="linear", align_corners=True),
        ]
        return torch.cat([each.flatten(1) for each in parts], 1)

    return Calls(call)


@module(x="batch,2,5,6", y="batch,2,3")
def spatial_transformer():
    def call(_, x, y):
        grid = functional.affine_grid(y, [x.shape[0], 2, 4, 5], align_corners=False)
        kinds = (("bilinear", "zeros", False), ("nearest", "border", True), ("bicubic", "reflection", False))
        made = [functional.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=a) for m, p, a in kinds]
        return torch.cat(made, 1)

    return CallsWithTwo(call)


@module(x="batch,4,8,8")
def kinds_of_pooling():
    def call(_, x):
        values, places = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
        parts = [
            values, places.float(), functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            functional.avg_pool2d(x, 2, divisor_override=3), functional.adaptive_avg_pool2d(x, (3, 4)),
            functional.adaptive_max_pool2d(x, (5, 1)), functional.lp_pool2d(x, 2, 2),
            functional.max_pool1d(x.flatten(2), 4, ceil_mode=True), functional.avg_pool1d(x.flatten(2), 5, 3),
        ]  # fmt: skip
        return torch.cat([each.flatten(1) for each in parts], 1)

    return Calls(call)


@module(x="batch,4,6,6")
def kinds_of_convolution():
    parts = {
        "depth": nn.Conv2d(4, 8, 3, padding=1, groups=4), "across": nn.ConvTranspose2d(8, 6, 3, 2, 1, 1, groups=2),
        "turned": nn.ConvTranspose2d(6, 2, 2, dilation=2, bias=False),
    }  # fmt: skip

    def call(parts, x):
        for each in parts.values():
            x = each(x)
        return functional.pixel_unshuffle(functional.pixel_shuffle(x.repeat(1, 2, 1, 1)[..., :12, :12], 2), 4)

    return Calls(call, **parts)


@module(x="batch,2,n", limits="6<=n<=40")
def convolutions_of_any_length():
    parts = {
        "one": nn.Conv1d(2, 4, 3, padding=2, dilation=2, padding_mode="circular"),
        "two": nn.ConvTranspose1d(4, 4, 3, padding=1), "three": nn.Conv1d(4, 2, 5, padding="same"),
    }  # fmt: skip

    def call(parts, x):
        x = functional.pad(parts["two"](parts["one"](x)), (2, 1), mode="replicate")
        return parts["three"](functional.pad(x, (3, 0), value=0.5)).mean(2)

    return Calls(call, **parts)


@module(x="batch,1,6,6")
def patches():
    def call(parts, x):
        columns = functional.unfold(x, 3, stride=3)
        return parts["a"](columns.mT)

    return Calls(call, a=nn.Linear(9, 4))


# -- whole modules -------------------------------------------------------------------------------------------------


@module(input="batch,6")
def parametrized():
    """Weights that are computed: of weight_norm and of a parametrization of one's own."""

    class Symmetric(nn.Module):
        def forward(self, weight):
            return weight.triu() + weight.triu(1).mT

    one, two = nn.Linear(6, 6), nn.utils.parametrizations.weight_norm(nn.Linear(6, 4))
    nn.utils.parametrize.register_parametrization(one, "weight", Symmetric())
    return nn.Sequential(one, nn.Tanh(), two)


@module(input="batch,6")
def decomposed_weights():
    """Weights that PyTorch computes with decompositions of matrices, which a package does not need."""
    parametrizations = nn.utils.parametrizations
    maps = ("matrix_exp", "cayley", "householder")
    layers = [parametrizations.orthogonal(nn.Linear(6, 6), orthogonal_map=each) for each in maps]
    return nn.Sequential(*layers, nn.Tanh(), parametrizations.spectral_norm(nn.Linear(6, 4)))


@module(x="batch,6")
def numbers_of_buffers():
    """Numbers that are read out of buffers, of which one is a size, and one counts calls that nobody asks for."""

    class Numbers(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.tensor(2.5))
            self.register_buffer("kept", torch.tensor(4))
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x):
            self.calls += 1
            return {"found": x[:, : self.kept.item()] * self.scale.item(), "edges": self.scale * torch.arange(3.0)}

    return Numbers()


class Experts(nn.Module):
    """The best two of four experts, with weights that add up to 1."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.ModuleList(torch_networks.dense(6, 8, 3, last=True) for _ in range(4))

    def forward(self, x):
        weights, places = self.gate(x).topk(2, -1)
        chosen = torch.zeros(x.shape[0], 4).scatter(1, places, weights.softmax(-1))
        return (torch.stack([each(x) for each in self.experts], 1) * chosen[..., None]).sum(1)


@module(x="batch,6")
def mixture_of_experts():
    return Experts()


@module(input="batch,5")
def shared_layers():
    inner = nn.Sequential(nn.Linear(5, 5), nn.SiLU())
    return nn.Sequential(inner, inner, nn.Sequential(inner, nn.LayerNorm(5)))


@module(x="batch,8")
def further_activations():
    kinds = (
        nn.Softshrink(0.3), nn.Hardshrink(0.4), nn.Threshold(0.1, 2.0), nn.LogSigmoid(), nn.Softplus(2.0, 10.0), nn.GLU(),
        nn.Softmin(-1), nn.RReLU(), nn.Sigmoid(), nn.Softsign(), nn.ELU(0.5), nn.Hardtanh(-0.5, 2), nn.Softmax(0),
    )  # fmt: skip
    parts = {str(place): kind for place, kind in enumerate(kinds[:-1])}
    return Calls(lambda parts, x: torch.cat([each(x) for each in parts.values()], 1), **parts)


@module(x="batch,7")
def functions():
    def call(_, x):
        small = x.tanh() * 0.9
        parts = [
            x.sin(), x.cos(), small.tan(), small.asin(), small.acos(), x.atan(), x.sinh(), x.cosh(), x.asinh(),
            (x.abs() + 1).acosh(), small.atanh(), x.erf(), x.erfc(), x.expm1(), x.abs().log1p(), (x.abs() + 1).log2(),
            (x.abs() + 1).log10(), x.exp2(), x.abs().rsqrt(), x.reciprocal(), x.trunc(), x.ceil(), x.floor(),
            x.round(), x.frac(), x.sign(), torch.atan2(x, x.flip(1)), torch.hypot(x, x.roll(2, 1)),
            torch.fmod(x, 0.7), torch.remainder(x, -0.7), x.abs() ** 1.7, 2.0**x, x**3, torch.addcmul(x, x, x, value=2),
            torch.lerp(x, x * 2, 0.3), torch.logaddexp(x, x.flip(1)), x.clamp(max=0.3),
            torch.nan_to_num(x / (x > 0), 0.5, 2.0, -2.0),
        ]  # fmt: skip
        return torch.stack(parts, 1)

    return Calls(call)


@module(x="batch,6:int64")
def integers():
    def call(_, x):
        y = x * 5 - 3
        parts = [
            y // 2, y % 4, -y, y.abs(), y & 6, y | 1, y ^ 3, torch.div(y, 4, rounding_mode="trunc"), y.cumsum(1),
            y.clamp(-1, 1), torch.where(x > 0, y, x), y.prod(1, keepdim=True).expand_as(y), ~y, y.bool().long(),
        ]  # fmt: skip
        return {"whole": torch.stack(parts, 1), "share": y / 4, "mean": y.float().mean(1), "sum": (y > 0).sum(1)}

    return Calls(call)


@module(x="batch,6,4")
def pairs_of_a_triangle():
    def call(_, x):
        first, second = torch.triu_indices(6, 6, 1)
        rows, columns = torch.tril_indices(6, 4, -1)
        return {"pairs": (x[:, first] * x[:, second]).sum(-1), "below": x[:, rows, columns]}

    return Calls(call)


@module(x="batch,5")
def in_double_precision():
    class Double(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch_networks.dense(5, 8, 3, last=True).double()

        def forward(self, x):
            return self.body(x.double()).softmax(-1)

    return Double()


@module(x="batch,4,5")
def statistics():
    def call(_, x):
        parts = [
            x.std(2), x.var(2, correction=0), torch.linalg.vector_norm(x, 3, 2), x.norm(p=1, dim=2), x.logsumexp(2),
            functional.normalize(x, dim=2).sum(2), functional.cosine_similarity(x, x + 1, dim=2), x.cumprod(2)[:, :, -1],
        ]  # fmt: skip
        return torch.stack(parts, 1)

    return Calls(call)


@module(x="batch,4,6")
def movements():
    def call(_, x):
        one, two = x.split([2, 4], 2)
        parts = [
            x.roll((1, -2), (1, 2)), x.flip((1, 2)), x.mT.reshape(-1, 4, 6), torch.cat([two, one], 2), x[:, ::2].repeat(1, 2, 1),
            x.tril(1), x.triu(), x[:, [3, 1, 0, 2]], x[:, torch.tensor([[0], [1]]), torch.tensor([0, 5])].repeat(1, 2, 3),
            x.unfold(2, 3, 3).flatten(2), x.movedim(1, 2).contiguous().view(-1, 4, 6), x[..., -6:], x[:, -1:].expand(-1, 4, -1),
            torch.stack(x.unbind(1)[::-1], 1), torch.diagonal(x, dim1=1, dim2=2).repeat(1, 6).view(-1, 4, 6),
        ]  # fmt: skip
        return torch.stack(parts, 1)

    return Calls(call)


@module(x="batch,4,6", y="batch,n,2", limits="3<=n<=20")
def written_arrays():
    """Slices and elements that are written in place."""

    def call(_, x, y):
        made, open_ = torch.zeros_like(x), y.clone()
        made[:, 1:3] = x[:, :2]
        made[:, -1] = x[:, 0] * 2
        made[..., 1::2] += 1
        made[:, :, 0] = 5
        open_[:, 1:] = y[:, :-1]
        open_[:, 0, 1] = -1
        return {"made": made, "open": open_}

    return CallsWithTwo(call)


@module(x="batch,3")
def sizes_that_python_takes_for_numbers():
    """len(x) is a number for torch.export, unless it reads the bytecode."""

    def call(_, x):
        made = torch.zeros(len(x), dtype=x.dtype)
        return made + x.sum(1) * x.shape[1]

    return Calls(call)


@module(x="batch,2,8,8")
def spectral_convolution():
    """Of a Fourier neural operator: the lowest frequencies times weights, in an array of complex zeros."""

    class Spectral(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3, 4, 3, dtype=torch.cfloat))

        def forward(self, x):
            spectrum = torch.fft.rfft2(x, norm="forward")
            made = torch.zeros((x.shape[0], 3, 8, 5), dtype=torch.cfloat)
            made[:, :, 2:6, :3] = torch.einsum("bihw,iohw->bohw", spectrum[:, :, 2:6, :3], self.weight)
            return torch.fft.irfft2(made, s=(8, 8), norm="forward")

    return Spectral()


@module(x="batch,2,4,5", y="batch,3,6,2")
def places_beyond_images():
    def call(_, x, y):
        kinds = [(mode, padding) for mode in ("bilinear", "nearest") for padding in ("border", "reflection")]
        found = [functional.grid_sample(x, 2 * y, mode=mode, padding_mode=padding, align_corners=False)
                 for mode, padding in kinds]  # fmt: skip
        volume = functional.grid_sample(
            x[:, :, None], torch.cat([y, y[..., :1]], -1)[:, None], padding_mode="border", align_corners=False
        )
        return torch.stack([*found, volume[:, :, 0]], 1)

    return CallsWithTwo(call)


@module(x="batch,2,7,9")
def sums_of_windows():
    """Means with a divisor of their own."""

    def call(_, x):
        return {
            "padded": functional.avg_pool2d(x, 4, 2, 2, count_include_pad=False, divisor_override=3),
            "completed": functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        }

    return Calls(call)


@module(x="batch,4,4", y="batch,4,3")
def linear_systems():
    def call(_, x, y):
        x = x + 8 * torch.eye(4)
        positive, lower = x @ x.mT, x.tril()
        sign, logarithm = torch.linalg.slogdet(x)
        factor = torch.linalg.cholesky(positive)
        return {
            "inverse": torch.linalg.inv(x), "determinant": torch.linalg.det(x), "sign": sign, "logarithm": logarithm,
            "solved": torch.linalg.solve(x, y), "vector": torch.linalg.solve(x, y[..., 0]), "factor": factor,
            "by_factor": torch.cholesky_solve(y, factor), "upper": torch.linalg.cholesky(positive, upper=True),
            "triangular": torch.linalg.solve_triangular(lower, y, upper=False),
            "right": torch.linalg.solve(x, y.mT, left=False), "of_factor": torch.cholesky_inverse(factor),
        }  # fmt: skip

    return CallsWithTwo(call)


@module(x="batch,9,9")
def larger_systems():
    """Of so many columns that their steps are a loop."""

    def call(_, x):
        x = x + 8 * torch.eye(9)
        return {"inverse": torch.linalg.inv(x), "factor": torch.linalg.cholesky(x @ x.mT)}

    return Calls(call)


@module(x="batch,12")
def gamma_functions():
    def call(_, x):
        inside = x.tanh()
        parts = [
            torch.lgamma(x), torch.lgamma(x.abs() * 9), torch.digamma(x.abs() + 0.1), torch.erfinv(inside),
            torch.special.ndtri(inside / 2 + 0.5), torch.mvlgamma(x.abs() + 3, 3),
        ]  # fmt: skip
        return torch.stack(parts, 1)

    return Calls(call)


@module(x="batch,5,6")
def running_extremes():
    def call(_, x):
        steps = (4 * x).round()  # with equal elements
        largest, last = steps.cummax(1)
        least, place = x.cummin(2)
        third, where = x.kthvalue(3, 2)
        parts = [largest, last.float(), least, place.float(), x.logcumsumexp(1), x.cummax(1).values,
                 third[..., None].expand_as(x), where[..., None].expand_as(x).float(),
                 x.nanmedian(2, keepdim=True).values.expand_as(x)]  # fmt: skip
        return torch.stack(parts, 1)

    return Calls(call)


@module(x="batch,4,4", y="batch,4,6")
def written_diagonals():
    def call(_, x, y):
        made, moved = x.clone(), y.clone()
        made.diagonal(dim1=1, dim2=2).copy_(y[..., 0])
        moved.diagonal(2, 1, 2)[:] = x[:, 0]
        index = torch.tensor([0, 2, 0])
        return {
            "made": made,
            "moved": moved,
            "largest": x.index_reduce(1, index, y[:, :3, :4], "amax"),
            "mean": x.index_reduce(2, index, y[..., :3], "mean", include_self=False),
        }

    return CallsWithTwo(call)


@module(x="batch,5", y="batch,6")
def bilinear_layer():
    def call(parts, x, y):
        return {"layer": parts["a"](x, y), "distance": torch.dist(x[:, 0], x[:, 0] + 1) * y}

    return CallsWithTwo(call, a=nn.Bilinear(5, 6, 4))


@module(x="batch,3,9,12")
def antialiased_images():
    def call(_, x):
        return {
            mode: functional.interpolate(x, (4, 7), mode=mode, antialias=True) for mode in ("bilinear", "bicubic")
        } | {"by_factor": functional.interpolate(x, scale_factor=0.55, mode="bilinear", antialias=True)}

    return Calls(call)


@module(x="batch,8")
def rounded_numbers():
    def call(_, x):
        whole = (x * 4).round()
        parts = [
            torch.floor_divide(whole / 10, 0.1), torch.div(x, -0.3, rounding_mode="floor"), torch.copysign(x, whole),
            torch.signbit(whole).float(), torch.ldexp(x, whole), x.round(decimals=1), (100 * x).round(decimals=-1),
            x.angle(), torch.isin(whole, torch.tensor([-3.0, 0.0, 2.0])).float(), x // x.flip(1),
        ]  # fmt: skip
        return torch.stack(parts, 1)

    return Calls(call)


@module(x="batch,5:int64")
def whole_numbers():
    def call(_, x):
        shifted = x - 2
        index, constant = torch.tensor([0, 1, 0]), torch.tensor([-7, 7, -8, 8, 5])
        parts = [
            shifted // 3, shifted << 2, shifted >> x.clamp(min=0), x + constant // 2, x + (constant >> 1),
            shifted.index_reduce(1, index, shifted[:, 1:4], "mean"), x.logsumexp(1, keepdim=True).expand(-1, 5),
            shifted.masked_scatter(torch.tensor([True, False, True, True, False]), shifted.flip(1)),
        ]  # fmt: skip
        return torch.stack([each.float() for each in parts], 1)

    return Calls(call)


@module(x="batch,5:int64")
def one_hot_and_loss():
    def call(parts, x):
        hot = functional.one_hot(x, 3).float()
        return parts["a"](hot.flatten(1)).log_softmax(-1).gather(1, x[:, :1])[:, 0] * math.pi

    return Calls(call, a=nn.Linear(15, 3))


@module(x="batch,6")
def places_of_equal_numbers():
    """Squares of very small and large numbers are equal; PyTorch names the place of any."""

    def call(_, x):
        x = x.square()
        return {"third": x.kthvalue(3)[1], "median": x.median(1, keepdim=True)[1]}

    return Calls(call)


@module(x="batch,2,12")
def numbers_in_buffers():
    """Sizes, flags and lists of them that decide in Python what is computed, as in EnCodec."""

    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("width", torch.tensor(3))
            self.register_buffer("is_causal", torch.tensor(True))
            self.register_buffer("parts", torch.tensor([5, 4, 3]), persistent=False)
            self.convolution = nn.Conv1d(2, 4, 3)

        def forward(self, x):
            more = torch.ceil((x.shape[-1] - self.width) / 2).long() * 2 + self.width - x.shape[-1]
            ends = (self.width - 1, more) if self.is_causal else (more, self.width - 1)
            x = functional.pad(x, ends, mode="reflect" if x.shape[-1] > max(ends) else "constant")
            found = self.convolution(x)[..., : self.parts.sum()]
            parts = [part.mean(-1) for part in found.split(self.parts.tolist(), -1)]
            return torch.stack([part * self.width for part in parts[: int(self.width)]], 1)

    return Padded()


@module(x="batch,n,6", limits="n<=12")
def floats_of_16_bits():
    """Within a model; positions behind 256 are rounded before they are multiplied, as in Falcon's ALiBi."""

    class Short(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("slopes", torch.tensor([0.5, 0.29, 0.125]).bfloat16())
            self.layer = nn.Linear(6, 4).half()

        def forward(self, x):
            places = torch.arange(x.shape[1]) * 37
            bias = (self.slopes[:, None] * places).float()
            scaled = x.bfloat16().mul(0.3).float() + x.half().exp().float()
            found = self.layer(x.half()).float()
            return {"bias": bias[None] + 0 * x[..., :1].mT, "scaled": scaled, "layer": found}

    return Short()


@module(x="batch,1,8,8")
def empty_images():
    """Normalized four times: where all numbers of an image are equal, the rounding of their mean would be all there is."""
    kinds = (functools.partial(nn.InstanceNorm2d, affine=True), functools.partial(nn.GroupNorm, 4))
    widths = pairwise((1, 4, 4, 4, 4))
    layers = [(nn.Conv2d(*each, 3, padding=1), kinds[n % 2](4), nn.LeakyReLU()) for n, each in enumerate(widths)]
    return Calls(lambda parts, x: parts["layers"](x)[:, :, 1::3, 1::3], layers=nn.Sequential(*chain(*layers)))


@module(x="batch,5")
def densities():
    """Of normal distributions with whole covariances: systems of equations whose matrices are known."""

    class Densities(nn.Module):
        def __init__(self):
            super().__init__()
            spread = torch.randn(3, 5, 5)
            self.register_buffer("factors", torch.linalg.cholesky(spread @ spread.mT + torch.eye(5)))
            self.register_buffer("means", torch.randn(3, 5))
            self.register_buffer("rotation", torch.randn(5, 5))

        def forward(self, x):
            normal = torch.distributions.MultivariateNormal
            parts = normal(self.means, scale_tril=self.factors)
            weights = torch.distributions.Categorical(logits=self.means[:, 0])
            mixture = torch.distributions.MixtureSameFamily(weights, parts)
            prior = normal(self.means[0], scale_tril=self.factors[0])
            solved = torch.linalg.solve(self.rotation, x.mT).mT
            return {"prior": prior.log_prob(x), "mixture": mixture.log_prob(x), "solved": solved}

    return Densities()


@module(x="2,7")
def histograms():
    """Numbers at the ends of a range, and beside it."""

    def call(_, x):
        return torch.stack([torch.histc(row, bins=4, min=-1, max=2) for row in (torch.round(2 * x[0]), x[1])])

    return Calls(call)


@module(x="batch,1,n,4,m,4", limits=("2<=n<=8", "2<=m<=12"))
def images_in_steps():
    """Of sizes that are multiples of four: halved twice, made twice as large again, and divided into patches."""

    def call(parts, x):
        x = x.flatten(2, 3).flatten(3, 4)
        found = parts["down"](x)
        whole = functional.interpolate(found, size=x.shape[2:])
        x = torch.cat([x, functional.interpolate(parts["up"](found), scale_factor=2.0), whole], 1)
        return parts["patches"](x).flatten(2).mT

    down = nn.Sequential(nn.Conv2d(1, 3, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2))
    return Calls(call, down=down, up=nn.ConvTranspose2d(3, 2, 2, 2), patches=nn.Conv2d(6, 4, 4, 4))


def every():
    scripts = ("gru_tagger", "lstm_tagger")
    others = {name: each for name, each in torch_networks.NETWORKS.items() if name not in scripts}
    without = {name: each for name, each in torch_files.MODULES.items() if name != "selection"}
    return {**without, **others, **MODULES}


def main():
    helper, folder, *names = sys.argv[1:]
    export_with = torch_files.exporter(helper)
    chosen = {name: each for name, each in every().items() if not names or name in names}

    def export(model, inputs, path, **given):
        export_with(model, inputs, path.with_suffix(".aten"), **given)

    torch_files.write(export, Path(folder), chosen)


if __name__ == "__main__":
    main()
