"""Exports a PyTorch model into one file that `tfaot-pkg init` takes, with PyTorch's own answers.

    python -m tfaot_pkg.export taggers:make_tagger --input particles=batch,n,16 --dynamic "n<=128"

    tfaot_pkg.export.export(model, (particles,), "tagger.onnx", shapes={"particles": "batch,n,16"}, dynamic=["n<=128"])

It runs in the environment in which the model works, and needs PyTorch 2.6 or newer; for ONNX, 2.5 or newer with the
packages onnx and onnxscript. Nothing else of tfaot_pkg is imported: this folder may be copied and run alone.

FILE.aten is the program of torch.export in PyTorch's core operators, which needs no other package, and what the model
itself answered. It is a zip archive: `program.json`, and the elements of arrays, little-endian and row-major, as
`arrays/0`, `arrays/1` ... Those of answers are compressed. The document has

    format      1
    framework, version
    symbols     {name: [least, most or null]} of the axes that vary; "batch" is the batch
    guards      what else torch.export assumed of them, as text
    inputs      [{name, value, dtype, axes}]: an axis is a size or the name of a symbol
    outputs     [{name, value}]
    arrays      [{dtype, shape, sha256}]
    weights     {value: number of an array}
    answers     {"in/NAME" or "out/NAME": number of an array}, to the example inputs
    classes     [{name, sizes, inputs, runs}]: answers to the classes of inputs that packages are verified with.
                `sizes` are those of symbols, `inputs` {NAME: number of an array} with a row of each for a batch axis;
                of `runs`, [{rows, ran, outputs, beside}], one has batches of so many `rows`: `ran` says which of them
                the model did not reject, `outputs` {NAME: number} has their answers one after the other, along a first
                axis, and `beside` what tells roundings from faults: {"low/NAME", "high/NAME", "spread/NAME",
                "missing/NAME": number} of inputs that are off by some roundings, and of equal elements in another
                order, {"exact/NAME": number} in float64
    nodes       [{name, op, arguments, results, module, line}], each after what it reads

A node's `arguments` are by the names of the operator's schema, with its defaults: JSON values, or {"value": name of an
input, weight or node}, {"dtype": name}, {"number": "inf"}, {"complex": [real, imaginary]}, {"other": text}. Of
`results`, one for each tensor, a size is a number, or null, or a polynomial: [[coefficient, [symbols]] ...].

FILE.onnx is ONNX, also for other programs. Two of its metadata are for tfaot-pkg: `tfaot.about` (JSON: framework,
version, symbols, and the digest of the graph, graph_digest.py), and `tfaot.answers`, an .npz file in base64 with
"in/NAME" and "out/NAME", which answer the graph with this digest. FILE.pt2 has the program of torch.export too, which
torch.export.load reads; the ONNX form is the member tfaot/model.onnx.
"""

from .errors import ExportError
from .exporting import export

__all__ = ["ExportError", "export"]
