"""A ModelProto and the path of a file become models; the package is saved, published, and loaded by its name."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import tfaot_pkg

path, folder = sys.argv[1], Path(sys.argv[2])
proto = onnx.load(path)
jet, tracks = (np.random.default_rng(0).normal(size=size).astype("float32") for size in ((7, 4), (7, 12, 6)))
(theirs,) = onnxruntime.InferenceSession(path).run(["p"], {"jet": jet, "tracks": tracks})
of_proto, of_path = tfaot_pkg.compile(proto, name="tagger", quiet=True), tfaot_pkg.compile(path, quiet=True)
installed = of_path.save(folder / "prefix")
published, again = (of_path.publish(folder / "registry") for _ in range(2))
measured = of_path.benchmark(batch_sizes=[1], rounds=1)
errors = {}
for name, wrong in {
    "unknown": lambda: tfaot_pkg.compile(object()),
    "missing": lambda: tfaot_pkg.compile("missing.onnx"),
    "option": lambda: tfaot_pkg.compile(proto, dynamic=["n<=3"]),
    "spec": lambda: tfaot_pkg.compile(proto, name="tagger", quiet=True, spec={"validation": {"rtol": -1}}),
}.items():
    try:
        wrong()
    except (tfaot_pkg.TfaotError, TypeError) as error:
        errors[name] = [type(error).__name__, str(error), getattr(error, "hint", "")]
RESULT = {
    # By position in the order of the graph; by name.
    "off": [float(abs(made["p"] - theirs).max()) for made in (of_proto(tracks, jet), of_path(jet=jet, tracks=tracks))],
    "by name": float(
        abs(tfaot_pkg.load("tagger", prefix=folder / "prefix")(jet=jet, tracks=tracks)["p"] - theirs).max()
    ),
    "installed": [installed.name, installed.status],
    "published": [published.entry.model, published.status, published.created],
    "again": [again.status, again.created],
    "benchmark": [[each.name, [cell.batch_size for cell in each.cells]] for each in measured.engines],
    "page": of_path._repr_html_(),
    "loaded page": tfaot_pkg.load("tagger", prefix=folder / "prefix")._repr_html_(),
    "errors": errors,
}
