"""The library's own answers."""

from from_trees.reading import INPUT, reader_of
from messages import elements
from messages.requests import Reference

_loaded: dict = {}
"""The file that was asked for last: one validation asks many times."""


class TreesModel:
    """The model in `request.folder`, a file.

    The module that reads it has `Answers(path)`, with `version`, `dtype` of x, `rejections` and `run(x)`,
    which gives the result, or several by name.
    """

    def __init__(self, request: Reference) -> None:
        if _loaded.get("file") != request.folder:
            _loaded.clear()
            _loaded["answers"] = reader_of(request.folder).Answers(request.folder)
            _loaded["file"] = request.folder
        self._answers = _loaded["answers"]
        self._input = next(name for name, key in request.feeds.items() if key == INPUT)
        self._outputs = dict(request.fetches)
        self.version, self.rejections = self._answers.version, self._answers.rejections
        self.dtypes = {self._input: self._answers.dtype}
        self.operations = ["trees"]

    def run(self, feeds: dict) -> dict:
        made = self._answers.run(feeds[self._input])
        given = {name: made[key] if isinstance(made, dict) else made for name, key in self._outputs.items()}
        return {name: elements.numbers(values, values.dtype.name) for name, values in given.items()}

    def exactly(self) -> None:
        return None
