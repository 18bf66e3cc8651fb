"""Write the boosted trees that benchmarks/trees.py measures, each with its spec.

    PYTHON tree_models.py FOLDER NAME...      in a Python that has XGBoost

NAME is TREESxDEPTH (200x6). Classifiers of two classes on 28 numbers, as the Higgs data set has them; the data are made
from fixed seeds, with noise, so that trees are nearly complete.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import xgboost

FEATURES, ROWS = 28, 40_000
SPEC = """\
model:
  name: trees_{name}
  version: "1.0.0"
  trees: model.json
  description: XGBoost, {trees} trees of depth {depth}, {nodes} nodes, 28 numbers, two classes
compilation:
  batch_sizes: [1, 16, 256]
  targets: [x86-64-v2, x86-64-v3, x86-64-v4]
"""


def main() -> None:
    random = np.random.default_rng(20260)
    x = random.normal(size=(ROWS, FEATURES)).astype(np.float32)
    signal = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3:].sum(1) / 5
    labels = signal + random.normal(size=ROWS) > 0
    for name in sys.argv[2:]:
        trees, depth = map(int, name.split("x"))
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True)
        model = xgboost.XGBClassifier(
            n_estimators=trees, max_depth=depth, learning_rate=0.1, min_child_weight=0, reg_lambda=0.1, n_jobs=2,
            random_state=1,
        )  # fmt: skip
        model.fit(x, labels)
        model.save_model(folder / "model.json")
        nodes = sum(tree.count("\n") for tree in model.get_booster().get_dump())
        (folder / "spec.yaml").write_text(SPEC.format(name=name, trees=trees, depth=depth, nodes=nodes))


if __name__ == "__main__":
    main()
