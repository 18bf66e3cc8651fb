"""Decision trees of conifer, as the front-end reads them, with the answers of conifer's C++.

    FRONTEND/bin/python conifer_trees.py WORKER_PROGRAM FOLDER ROWS NAME...

FOLDER/NAME has NAME.json, which conifer saved, network.json, numbers.npz, and rows.npz with "in/x" and "out/score".
Some of the rows are thresholds, lie between steps of the input's type, at its limits, or at those of float32.
"""

import os
import sys

import numpy as np

XILINX = {"backend": "xilinxhls", "xilinx_part": "xcvu9p-flgb2104-2L-e", "clock_period": 5, "unroll": True}
ROLLED = {**XILINX, "unroll": False}
FEATURES = 8
# Settings, classes, trees, depth, spread of leaves, and whether nodes compare sums of several features.
CASES = {
    "plain": ({**XILINX, "precision": "ap_fixed<16,6>"}, 2, 30, 5, 0.1, False),
    "classes": (
        {**ROLLED, "input_precision": "ap_fixed<12,5,AP_RND,AP_SAT>", "threshold_precision": "ap_fixed<14,4>",
         "score_precision": "ap_fixed<18,8,AP_RND_CONV,AP_WRAP>"}, 4, 20, 4, 0.1, False,
    ),
    "saturating": (
        {**XILINX, "input_precision": "ap_fixed<10,4>", "score_precision": "ap_fixed<8,2,AP_RND,AP_SAT>"},
        2, 40, 3, 0.4, False,
    ),
    "saturating_in_order": (
        {**ROLLED, "input_precision": "ap_fixed<10,4>", "score_precision": "ap_fixed<8,2,AP_TRN,AP_SAT_SYM>"},
        3, 21, 3, 0.4, False,
    ),
    "oblique": ({**XILINX, "precision": "ap_fixed<18,8>", "weight_precision": "ap_fixed<12,4>"}, 2, 12, 3, 0.3, True),
    "cpp": ({"backend": "cpp", "precision": "ap_fixed<18,8,AP_RND,AP_SAT>"}, 2, 25, 4, 0.2, False),
    "integers": (
        {**XILINX, "input_precision": "ap_int<10>", "score_precision": "ap_fixed<12,4>", "precision": "ap_int<10>"},
        2, 10, 4, 0.2, False,
    ),
    "wide": ({**XILINX, "precision": "ap_fixed<32,16>"}, 2, 50, 6, 3.0, False),
    # The weight 1 of a node's feature is -1 in this type.
    "one_is_minus_one": ({**XILINX, "precision": "ap_fixed<8,1>"}, 2, 9, 3, 0.2, False),
}  # fmt: skip


class Drawn:
    """A tree of conifer, of random shape."""

    def __init__(self, random, depth, spread, is_oblique):
        self.random, self.spread, self.is_oblique = random, spread, is_oblique
        names = ("feature", "weight", "threshold", "value", "children_left", "children_right")
        self.parts = {name: [] for name in names}
        self.add(depth)

    def add(self, depth):
        random, place = self.random, len(self.parts["feature"])
        is_leaf = depth == 0 or random.random() < 0.15
        feature, weights = int(random.integers(FEATURES)), [0] * FEATURES
        if not is_leaf and self.is_oblique and random.random() < 0.5:
            weights = [float(each) for each in np.round(random.normal(size=FEATURES), 3)]
        elif not is_leaf:
            weights[feature] = 1
        row = {
            "feature": -2 if is_leaf else feature, "weight": weights, "children_left": -1, "children_right": -1,
            "threshold": 0.0 if is_leaf else float(random.normal() * 1.5), "value": float(random.normal() * self.spread),
        }  # fmt: skip
        for name, value in row.items():
            self.parts[name].append(value)
        if not is_leaf:
            self.parts["children_left"][place] = self.add(depth - 1)
            self.parts["children_right"][place] = self.add(depth - 1)
        return place


def save(name, place):
    from conifer.model import make_model

    settings, classes, count, depth, spread, is_oblique = CASES[name]
    random, made = np.random.default_rng(len(name)), 1 if classes == 2 else classes
    trees = [[Drawn(random, depth, spread, is_oblique).parts for _ in range(made)] for _ in range(count)]
    ensemble = {
        "n_classes": classes, "n_features": FEATURES, "n_trees": count, "max_depth": depth, "library": "drawn",
        "init_predict": [float(each) for each in random.normal(size=made) * 0.1], "norm": 1 if count % 2 else 1.25,
        "splitting_convention": "<" if count % 3 else "<=", "trees": trees,
    }  # fmt: skip
    config = {**settings, "output_dir": os.path.join(place, "project"), "project_name": "trees"}
    file = os.path.join(place, f"{name}.json")
    make_model(ensemble, config).save(file)
    return file


def drawn(random, rows, thresholds):
    x = random.normal(size=(rows, FEATURES)) * 2
    part = rows // 5
    x[:part] = np.round(x[:part] * 64) / 64
    x[part : 2 * part] = random.choice(thresholds, (part, FEATURES))
    x[2 * part : 3 * part] *= 10.0 ** random.uniform(-3, 30, (part, 1))
    special = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40, -1e-40, -0.0, 32, -32, 8, -8, -0.3])
    mask = random.random(x.shape) < 0.1
    mask[: 3 * part] = mask[4 * part :] = False
    x[mask] = random.choice(special, np.count_nonzero(mask))
    return x.astype("f4")


def write(name, place, rows):
    from from_conifer import document, emulator, reading
    from messages.requests import Reference
    from messages.sources import ReadConifer

    file = save(name, place)
    found = reading.read(ReadConifer(path=file, out=place), None)
    model = emulator.ConiferModel(
        Reference(
            folder=file, tags=(), signature="", inputs="", out="", batch_sizes=(), batched=(), stacked=(),
            framework="conifer", feeds={each.name: each.key for each in found.inputs},
            fetches={each.name: each.key for each in found.outputs},
        )
    )  # fmt: skip
    trees = [tree for row in document.ensemble_of(document.opened(file)).trees for tree in row]
    x = drawn(np.random.default_rng(3), rows, np.concatenate([tree.threshold for tree in trees]))
    answers = model.run({"x": x})
    np.savez(os.path.join(place, "rows.npz"), **{"in/x": x}, **{f"out/{k}": v for k, v in answers.items()})


def main():
    program, folder, rows, *names = sys.argv[1:]
    sys.path.insert(0, program)
    for name in names or CASES:
        os.makedirs(os.path.join(folder, name))
        write(name, os.path.join(folder, name), int(rows))


if __name__ == "__main__":
    main()
