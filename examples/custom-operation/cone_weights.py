"""What cone_weights.cpp must compute, for whole batches: the reference that a package is verified against."""

import numpy as np


def ConeWeights(tracks, axis, cone=0.4):  # noqa: N802 (the name of the operation)
    """Weights [batch, tracks] of tracks [batch, tracks, 3] around axis [batch, 2]."""
    pi = np.float32(3.14159265358979)
    eta = tracks[:, :, 1] - axis[:, None, 0]
    phi = np.abs(tracks[:, :, 2] - axis[:, None, 1])
    phi = phi - 2 * pi * np.floor(phi / (2 * pi))
    phi = np.where(phi > pi, 2 * pi - phi, phi)
    part = 1 - np.sqrt(eta * eta + phi * phi) / np.float32(cone)
    return np.where(part < 0, np.float32(0), tracks[:, :, 0] * part)
