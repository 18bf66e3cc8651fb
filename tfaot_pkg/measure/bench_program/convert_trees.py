"""Convert a file of decision trees for peers: to ONNX files, one per batch size, or to C by tl2cgen.

    PYTHON convert_trees.py < REQUEST.json     in a Python that has onnxmltools and skl2onnx, or tl2cgen and treelite

The request is `messages.TreeConversion`. The file GIVEN beside the results describes the answers of the converted
model: the type of its numbers, and how many a row has.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the sandbox starts this file alone

import messages

_TREES_PER_FILE = 25  # a compiler takes more than twice as long for a file of twice the length
# Rows one after the other, as tl2cgen's own predictor walks them; what it computes is added to the result.
_ROWS = """\
#include "header.h"

int {function}(union Entry* x, size_t rows, size_t features, {number}* results) {{
  memset(results, 0, rows * N_TARGET * MAX_N_CLASS * sizeof *results);
  for (size_t row = 0; row < rows; ++row) {{
    predict(x + row * features, 0, results + row * N_TARGET * MAX_N_CLASS);
  }}
  return 0;
}}
"""
_NUMBERS = {"float32": "float", "float64": "double"}


def main() -> None:
    warnings.simplefilter("ignore")
    request = messages.TreeConversion.of(json.load(sys.stdin))
    try:
        given = {"onnx": to_onnx, "c": to_c}[request.kind](request)
    except Exception as error:  # whatever a converter raises is a row of the table, of one line
        traceback.print_exc()
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])
    (Path(request.folder) / messages.GIVEN).write_text(json.dumps(given))


def to_onnx(request: messages.TreeConversion) -> dict:
    """As FOLDER/SIZE.onnx; a label is left out if there are probabilities."""
    import fix_onnx
    import onnx

    model = _ONNX[request.library](request)
    names = [value.name for value in model.graph.output]
    chosen = "label" if request.is_label and "label" in names else names[-1]
    result = next(value for value in model.graph.output if value.name == chosen).type.tensor_type
    content = model.SerializeToString()
    fixing = messages.Fixing(model="", inputs={"x": (None, request.columns)}, outputs=(chosen,), files={})
    for size in request.sizes:
        fixed = onnx.ModelProto.FromString(content)
        fix_onnx.fix(onnx, fixed, fixing, size)
        onnx.save(fixed, f"{request.folder}/{size}.onnx")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(result.elem_type).name
    axes = [axis.dim_value for axis in result.shape.dim]
    return {"dtype": dtype, "columns": max(1, axes[1] if len(axes) > 1 else 1)}


def _from_xgboost(request: messages.TreeConversion):
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    booster = xgboost.Booster(model_file=bytearray(Path(request.model).read_bytes()))
    booster.feature_names = None  # onnxmltools accepts only the names f0, f1, ...
    return onnxmltools.convert_xgboost(booster, initial_types=[("x", FloatTensorType([None, request.columns]))])


def _from_lightgbm(request: messages.TreeConversion):
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import DoubleTensorType, FloatTensorType

    kind = {"float32": FloatTensorType, "float64": DoubleTensorType}[request.dtype]
    types = [("x", kind([None, request.columns]))]
    return onnxmltools.convert_lightgbm(lightgbm.Booster(model_file=request.model), initial_types=types, zipmap=False)


def _from_scikit_learn(request: messages.TreeConversion):
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    estimator = scikit_learn(request.model)
    kind = {"float32": FloatTensorType, "float64": DoubleTensorType}[request.dtype]
    options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
    return skl2onnx.convert_sklearn(estimator, initial_types=[("x", kind([None, request.columns]))], options=options)


_ONNX = {"XGBoost": _from_xgboost, "LightGBM": _from_lightgbm, "scikit-learn": _from_scikit_learn}


def scikit_learn(path: str):
    """The estimator in a file that the front-end has read before: it accepts only known types."""
    import skops.io

    # All types of the file are trusted here, in the sandbox: the front-end has rejected files with foreign ones.
    return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))


def to_c(request: messages.TreeConversion) -> dict:
    """As C files in FOLDER, with the function `messages.ROWS` for rows; its default parameters."""
    import tl2cgen
    import treelite

    if request.library == "XGBoost":
        model = treelite.frontend.load_xgboost_model(request.model, format_choice="inspect")
    elif request.library == "LightGBM":
        model = treelite.frontend.load_lightgbm_model(request.model)
    else:
        model = treelite.sklearn.import_model(scikit_learn(request.model))
    folder = Path(request.folder)
    tl2cgen.generate_c_code(model, folder, params={"parallel_comp": model.num_tree // _TREES_PER_FILE + 1})
    sizes = dict(line.split()[1:] for line in (folder / "header.h").read_text().splitlines() if "#define N_T" in line
                 or "#define MAX_N" in line)  # fmt: skip
    number = _NUMBERS[model.output_type]
    # The loop over rows is in C, as a user in C would write it, so that Python adds nothing to the times.
    (folder / "rows.c").write_text(_ROWS.format(function=messages.ROWS, number=number))
    return {"dtype": model.output_type, "columns": int(sizes["N_TARGET"]) * int(sizes["MAX_N_CLASS"])}


if __name__ == "__main__":
    main()
