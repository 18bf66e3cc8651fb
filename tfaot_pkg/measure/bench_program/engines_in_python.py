"""Engines that are called through their Python bindings, as their users call them. Each is imported when it starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np


class TensorFlow:
    """A function of the frozen graph per batch size."""

    jit = False

    def __init__(self) -> None:
        import tensorflow as tf

        self._tf = tf
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)

    def model(self, path: str, inputs: list, outputs: list) -> TensorFlowModel:
        return TensorFlowModel(self._tf, path, inputs, outputs, jit=self.jit)


class JitTensorFlow(TensorFlow):
    """With XLA while it runs (`jit_compile=True`)."""

    jit = True


class TensorFlowModel:
    def __init__(self, tf, path: str, inputs: list, outputs: list, *, jit: bool) -> None:
        graph_def = tf.compat.v1.GraphDef.FromString(Path(path).read_bytes())
        graph = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph_def, name=""), [])
        feeds = [graph.graph.get_tensor_by_name(f"input_{i}:0") for i in range(len(inputs))]
        fetches = [graph.graph.get_tensor_by_name(f"output_{i}:0") for i in range(len(outputs))]
        pruned = graph.prune(feeds, fetches)  # without the placeholders, which XLA does not know
        specs = [tf.TensorSpec(array.shape, array.dtype) for array in inputs]

        @tf.function(input_signature=specs, jit_compile=jit or None, autograph=False)
        def run(*values) -> list:
            return pruned(*values)

        values = [tf.constant(array) for array in inputs]
        function = run.get_concrete_function()

        def call() -> None:
            self._results = function(*values)

        self.call = call

    def results(self) -> list[np.ndarray]:
        return [tensor.numpy() for tensor in self._results]


class LiteRt:
    """TensorFlow Lite with XNNPACK: one interpreter per batch size.

    The wheel exports no C function of the interpreter; the binding costs about 0.3 us a call (benchmarks/families.py).
    """

    def model(self, path: str, inputs: list, outputs: list) -> LiteRtModel:
        return LiteRtModel(path, inputs, outputs)


class LiteRtModel:
    def __init__(self, path: str, inputs: list, outputs: list) -> None:
        from ai_edge_litert import interpreter

        # One thread, as all engines: a core is compared with a core.
        self._interpreter = interpreter.Interpreter(model_path=path, num_threads=1)
        self._interpreter.allocate_tensors()
        # The model lists its tensors in another order than the signature does.
        signature = self._interpreter.get_signature_runner()
        wanted, given = signature.get_input_details(), signature.get_output_details()
        for i, array in enumerate(inputs):
            if f"input_{i}" in wanted:  # the converter leaves out what is not used
                self._interpreter.set_tensor(wanted[f"input_{i}"]["index"], array)
        self._outputs = [given[f"output_{i}"]["index"] for i in range(len(outputs))]
        # What `invoke` calls after its checks.
        self.call = self._interpreter._interpreter.Invoke  # noqa: SLF001

    def results(self) -> list[np.ndarray]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]


class Iree:
    """One module per batch size, called with device arrays made beforehand.

    The wheel exports no C functions; results are allocated by each call, as IREE's compiled programs do.
    """

    def __init__(self) -> None:
        from iree import runtime

        self._runtime, self._config = runtime, runtime.Config("local-sync")

    def model(self, path: str, inputs: list, outputs: list) -> IreeModel:
        return IreeModel(self._runtime, self._config, path, inputs)


def _entry(names: list) -> str:
    """The model's function, beside those that IREE adds (NAME$async, __init)."""
    return next(name for name in names if "$" not in name and not name.startswith("__"))


class IreeModel:
    def __init__(self, runtime, config, path: str, inputs: list) -> None:
        self._runtime = runtime
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
        views = [self._results.get_as_object(i, self._runtime.HalBufferView) for i in range(self._results.size)]
        return [self._runtime.DeviceArray(self._device, view, implicit_host_transfer=True).to_host() for view in views]
