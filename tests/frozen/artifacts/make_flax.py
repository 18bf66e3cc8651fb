"""Write flax.jax and flax.npz: a net of Flax 0.10.4, exported by JAX 0.5.3 for two platforms, and JAX's answers.

ENVIRONMENT/bin/python make_flax.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import export


class Net(nn.Module):
    @nn.compact
    def __call__(self, image, track):
        seen = nn.max_pool(nn.relu(nn.GroupNorm(num_groups=4)(nn.Conv(8, (3, 3))(image))), (2, 2), (2, 2))
        seen = nn.gelu(nn.Conv(12, (3, 3), padding="VALID")(seen)).mean((1, 2))
        steps = nn.Dense(16)(track)
        steps = (nn.SelfAttention(num_heads=2)(nn.LayerNorm()(steps)) + steps).mean(1)
        last = nn.RNN(nn.LSTMCell(10))(track)[:, -1]
        both = nn.Dense(24)(jnp.concatenate([seen, steps, last], -1))
        both = nn.silu(nn.BatchNorm(use_running_average=True)(both))
        return {"kind": nn.softmax(nn.Dense(4)(both)), "mass": nn.Dense(1)(both)[:, 0]}


def main():
    random = np.random.default_rng(3)
    image, track = (random.normal(size=(3, *shape)).astype(np.float32) for shape in ((12, 12, 2), (7, 5)))
    net = Net()
    parameters = net.init(jax.random.key(0), image, track)
    (batch,) = export.symbolic_shape("b")
    predict = jax.jit(lambda image, track: net.apply(parameters, image, track))
    specs = [jax.ShapeDtypeStruct((batch, *each.shape[1:]), each.dtype) for each in (image, track)]
    with open("flax.jax", "wb") as file:
        file.write(export.export(predict, platforms=["cpu", "cuda"])(*specs).serialize())
    np.savez_compressed("flax.npz", image=image, track=track, **predict(image, track))


if __name__ == "__main__":
    main()
