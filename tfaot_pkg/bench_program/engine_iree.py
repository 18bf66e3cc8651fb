"""IREE: one module per batch size, called through its Python binding with device arrays made beforehand.

The wheel exports no C functions; results are allocated by each call, as IREE's compiled programs do.
"""

from __future__ import annotations

import numpy as np
from iree import runtime


class Engine:
    def __init__(self) -> None:
        self._config = runtime.Config("local-sync")

    def model(self, path: str, inputs: list, outputs: list) -> Model:
        return Model(self._config, path, inputs)


def _entry(names: list) -> str:
    """The model's function, beside those that IREE adds (NAME$async, __init)."""
    return next(name for name in names if "$" not in name and not name.startswith("__"))


class Model:
    def __init__(self, config: runtime.Config, path: str, inputs: list) -> None:
        module = runtime.VmModule.mmap(config.vm_instance, path)
        context = runtime.SystemContext(config=config, vm_modules=[config.default_vm_modules[0], module])
        function = module.lookup_function(_entry(module.function_names))
        arguments = runtime.VmVariantList(len(inputs))
        self._keep = [runtime.asdevicearray(config.device, array) for array in inputs]
        for array in self._keep:
            arguments.push_ref(array._buffer_view)  # noqa: SLF001
        vm, self._device, self._results = context.vm_context, config.device, None

        def call() -> None:
            # A new list for each call, because results are added to it.
            self._results = results = runtime.VmVariantList(1)
            vm.invoke(function, arguments, results)

        self.call = call

    def results(self) -> list[np.ndarray]:
        views = [self._results.get_as_object(i, runtime.HalBufferView) for i in range(self._results.size)]
        return [runtime.DeviceArray(self._device, view, implicit_host_transfer=True).to_host() for view in views]
