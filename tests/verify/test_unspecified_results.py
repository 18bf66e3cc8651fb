"""The rows of a batch in which an operation meets operands that leave its result open."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import tfaot_pkg

_PROGRAM = Path(tfaot_pkg.__file__).parent / "worker_program"
_SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from messages.open_results import Node, Observer

nan, inf, most = float("nan"), float("inf"), 3e38


def rows(operation, *operands, exact=None, to=None, nested=False, **attributes):
    seen = Observer(len(operands[0]))
    plain = tuple(np.asarray(each, "f4" if np.asarray(each).dtype.kind == "f" else None) for each in operands)
    right = plain if exact is None else tuple(np.asarray(each) for each in exact)
    for look, arrays in ((seen.first, plain), (seen.second, right)):
        look(Node(name="n", operation=operation, operands=arrays, to=to, attributes=attributes, nested=nested))
    return {freedom: mask.tolist() for (freedom, _), mask in seen.found.items()}


x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
print(json.dumps({
    "nothing": rows("Max", x),
    "nan": rows("Max", [[1.0, nan], [1.0, inf], [1.0, 2.0]]),
    "nan in a loop": rows("Max", [[1.0, nan], [1.0, inf], [1.0, 2.0]], nested=True),
    "nothing in a loop": rows("Max", x, nested=True),
    "converted": rows("Cast", [[-2.93], [2.9], [5e9]], to=np.dtype("uint32")),
    "largest": rows("Cast", [[2.0**31], [-(2.0**31)], [nan]], to=np.dtype("int32")),
    "shifted": rows("LeftShift", np.int32([[1], [1], [1]]), np.int32([[31], [32], [-1]])),
    "product": rows("MatMul", [[most, most], [1.0, most / 1e9], [1.0, 2.0]], np.ones((2, 4))),
    "squares": rows("FusedBatchNormV3", [[1e20, 1e20], [1.0, 2.0]], np.ones(2), is_training=True),
    "no squares": rows("FusedBatchNormV3", [[1e20, 1e20], [1.0, 2.0]], np.ones(2), is_training=False),
    "variance": rows("ai.onnx.LayerNormalization", [[1e20, 1e20], [1.0, 2.0]], np.ones(2)),
    "many weights": rows("MatMul", [[most] * 4, [1.0] * 4], np.ones((4, 4))),
    "sorted": rows("TopKV2", [[1.0, 2.0], [1.0, 1.0], [1.0, 1.0000001]]),
    "steps": rows("Round", [[0.5], [0.7], [2.50001]], exact=([[0.5000001], [0.7], [2.50002]],)),
    "counted": rows("Cast", [[2.0], [3.0], [5e9]], exact=([[2.0], [3.0], [5e9]],), to=np.dtype("int64")),
    "counted beside": rows("Cast", [[2.0, 0.3]], exact=([[2.0, 0.3000001]],), to=np.dtype("int32")),
    "at the border": rows("Greater", [[1.0], [1.0]], [[1.0], [1.0]], exact=([[1.0], [1.0]], [[1.0], [1.0000001]])),
}))
"""


def test_rows_are_found_by_their_operands() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(_PROGRAM)], capture_output=True, text=True, check=True, timeout=60
    )
    found = json.loads(done.stdout)
    assert found == {
        "nothing": {},
        "nan": {"maximum": [True, False, False]},
        # Three particles of one row, as well as three rows.
        "nan in a loop": {"maximum": [True, True, True]},
        "nothing in a loop": {},
        # A float that large is a whole number, and its neighbours are others.
        "converted": {"conversion": [True, False, True], "step": [False, False, True]},
        "largest": {"conversion": [True, False, True], "step": [True, True, False], "overflow": [False, False, True]},
        "shifted": {"shift": [False, True, True]},
        "product": {"overflow": [True, False, False]},
        "squares": {"overflow": [True, False]},
        "no squares": {},
        "variance": {"overflow": [True, False]},
        "many weights": {"overflow": [True, False]},
        "sorted": {"ties": [False, False, True]},  # equal numbers have the framework's order
        "steps": {"step": [True, False, True]},
        # What no rounding took part in is on one side of a step.
        "counted": {},
        "counted beside": {"step": [True]},
        "at the border": {"step": [True, True]},
    }


_DEFINED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from defined_results import converted, shifted

x = np.float32([float("nan"), float("inf"), float("-inf"), -2.93, 2.93, 3e9, 2.0**63, 1e20])
count = np.int32([0, 1, 31, 32, -1])
print(json.dumps({
    **{name: converted(x, np.dtype(name)).tolist() for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64")},
    "left": shifted(np.int32([3] * 5), count, to_left=True).tolist(),
    "right": shifted(np.int32([-3] * 5), count, to_left=False).tolist(),
    "of no sign": shifted(np.uint32([3] * 5), count.astype(np.uint32), to_left=False).tolist(),
}))
"""


def test_open_conversions_and_shifts_are_what_compiled_code_defines() -> None:
    """The nearest integer, and 0 for NaN; of too many bits nothing is left but the sign."""
    done = subprocess.run(
        [sys.executable, "-c", _DEFINED, str(_PROGRAM)], capture_output=True, text=True, check=True, timeout=60
    )
    found = json.loads(done.stdout)
    for name, low, high in (("int8", -(2**7), 2**7 - 1), ("uint8", 0, 2**8 - 1), ("int32", -(2**31), 2**31 - 1),
                            ("uint32", 0, 2**32 - 1), ("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1)):  # fmt: skip
        exact = [high, low, -2, 2, 3 * 10**9, 2**63, int(float(np.float32(1e20)))]
        assert found[name] == [0, *(min(max(each, low), high) for each in exact)], name
    assert found["left"] == [3, 6, -(2**31), 0, 0] and found["right"] == [-3, -2, -1, -1, -1]
    assert found["of no sign"] == [3, 1, 0, 0, 0]
