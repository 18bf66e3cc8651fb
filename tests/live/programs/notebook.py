"""The notebook of the examples in a real kernel, by the program that Jupyter runs notebooks with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

path = Path(__file__).resolve().parents[3] / "examples" / "notebook" / "compile.ipynb"
book = nbformat.read(path, as_version=4)
code = [cell for cell in book.cells if cell.cell_type == "code"]
called = 'compile("../from-onnx/tagger.onnx"'
assert called in code[0].source
code[0].source = code[0].source.replace(called, f'{called}, version="9.{sys.argv[1]}"', 1)
# The kernel is a process of its own: it has to find the checkout and what it needs, as this one does.
os.environ["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
updates = []


class Client(NotebookClient):
    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            updates.append(msg)
        return super().process_message(msg, cell, cell_index)


Client(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
outputs = code[0].outputs
RESULT = {
    "updates": len(updates),
    "errors": [each for cell in code for each in cell.outputs if each.output_type == "error"],
    "first": {
        "kinds": [each.output_type for each in outputs],
        "progress": outputs[0].get("data", {}).get("text/plain", ""),
        "page": outputs[-1].get("data", {}).get("text/html", ""),
    },
}
