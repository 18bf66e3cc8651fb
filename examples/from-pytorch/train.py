"""Train a small network over particles in PyTorch, and export it, with its answers, to constituents.aten.

python train.py          where PyTorch and tfaot-pkg (or its folder export alone) are
"""

import torch
from torch import nn

from tfaot_pkg.export import export


class Constituents(nn.Module):
    """The score of a jet from its particles; `mask` is 1 for real particles and 0 for padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(4, 16), nn.GELU())
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.score = nn.Linear(16, 1)

    def forward(self, particles: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embed(particles)
        x = self.norm(x + self.attend(x, x, x, key_padding_mask=mask < 0.5, need_weights=False)[0])
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return {"score": torch.sigmoid(self.score(mean))}


def jets(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Made-up particles, their mask, and whether the jet belongs to the signal."""
    kind = torch.randint(0, 2, (count, 1)).float()
    particles = torch.randn(count, 20, 4) + 0.5 * kind[..., None]
    present = torch.arange(20) < torch.randint(5, 21, (count, 1))
    return particles, present.float(), kind


def main() -> None:
    torch.manual_seed(1)
    model = Constituents()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(100):
        particles, mask, kind = jets(128)
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy(model(particles, mask)["score"], kind)
        loss.backward()
        optimizer.step()
    particles, mask, _ = jets(16)  # use real data here: packages are compared with the model's answers for it
    shapes = {"particles": "batch,n,4", "mask": "batch,n"}
    export(model, (particles, mask), "constituents.aten", shapes=shapes, dynamic=["n<=64"])


if __name__ == "__main__":
    main()
