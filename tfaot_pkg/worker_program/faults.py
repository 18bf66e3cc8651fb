"""What is wrong with a model, in words for its author."""


class ModelFault(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
