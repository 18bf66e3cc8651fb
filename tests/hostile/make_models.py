"""Make the corpus of hostile SavedModels: one folder each below FOLDER.

    TOOLCHAIN/bin/python make_models.py FOLDER SECRET CANARIES PORT

SECRET is a file that no model may read, CANARIES a folder that none may write to, PORT one of this machine that none
may connect to. Runs inside a toolchain's Python. `corpus.json` in FOLDER says of each model what must become of it:
"refused" (the signature is never imported), "harmless" (it runs, and what is hostile in the file does not), or
"endless" (it computes, without end or measure: what the limits of workers are for).
"""

import json
import os
import pathlib
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import saved_model_pb2

RAW = tf.raw_ops
_MAKERS = {}


class Places:
    """What a hostile model reaches for."""

    def __init__(self, secret, canaries, port):
        self.secret = secret
        self.canaries = canaries
        self.port = port
        self.name = ""

    @property
    def canary(self):
        return os.path.join(self.canaries, self.name)

    @property
    def command(self):
        return f"touch {self.canary}"


def hostile(outcome, says=""):
    """Register a maker of a model; `says` must be in the message that refuses it."""

    def register(maker):
        _MAKERS[maker.__name__] = (maker, outcome, says)
        return maker

    return register


def _save(folder, function, *specs):
    module = tf.Module()
    module.serve = tf.function(function, input_signature=specs or [tf.TensorSpec([None, 4], tf.float32, name="x")])
    tf.saved_model.save(module, folder, signatures=module.serve)


def _graph(folder):
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        saved.ParseFromString(file.read())
    return saved


def _write(folder, saved):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "saved_model.pb"), "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


def _v1(folder, build, *, change=None, variable=False, init=None):
    """A model of TensorFlow 1's kind: `build(x)` gives y; `change(saved, meta_graph)` edits the file afterwards."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        factor = v1.get_variable("factor", initializer=2.0, use_resource=True) if variable else 2.0
        y = build(x * factor)
        main = init() if init else None
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y})
        builder = v1.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}, main_op=main
        )
        builder.save()
    if change:
        saved = _graph(folder)
        change(saved, saved.meta_graphs[0])
        _write(folder, saved)


def _same(x):
    return tf.identity(x, name="y")


def _with(effect):
    """A signature that runs `effect` before it gives its answer."""

    def serve(x):
        with tf.control_dependencies([effect(x)]):
            return {"y": x * 2.0}

    return serve


def _effect(name, says, effect):
    """Register a model whose signature runs an operation: `effect(places, x)`."""

    def maker(folder, places):
        _save(folder, _with(lambda x: effect(places, x)))

    maker.__name__ = name
    hostile("refused", says)(maker)


def _node(name, says, op, **attributes):
    """Register a model whose signature takes its output from a node that is written by hand."""

    def maker(folder, places):
        def change(saved, graph):
            node = graph.graph_def.node.add(name="evil", op=op)
            for key, value in attributes.items():
                node.attr[key].CopyFrom(value(places) if callable(value) else value)
            output = next(each for each in graph.graph_def.node if each.name == "y")
            output.input.append("^evil")

        _v1(folder, _same, change=change)

    maker.__name__ = name
    hostile("refused", says)(maker)


def _text(value):
    return lambda places: attr_value_pb2.AttrValue(s=(value(places) if callable(value) else value).encode())


_effect("read_file", "reads or writes files", lambda p, x: RAW.ReadFile(filename=p.secret))
_effect("write_file", "reads or writes files", lambda p, x: RAW.WriteFile(filename=p.canary, contents="x"))
_effect("matching_files", "reads or writes files", lambda p, x: RAW.MatchingFiles(pattern=p.secret + "*"))
_effect(
    "map_a_file_into_memory",
    "reads or writes files",
    lambda p, x: RAW.ImmutableConst(dtype=tf.uint8, shape=[8], memory_region_name=p.secret),
)
_effect(
    "restore_in_the_signature",
    "reads or writes the checkpoint",
    lambda p, x: RAW.RestoreV2(prefix=p.secret, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32])[0],
)
_effect(
    "save_in_the_signature",
    "reads or writes the checkpoint",
    lambda p, x: RAW.SaveV2(prefix=p.canary, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(1.0)]),
)
_effect(
    "save_slices",
    "reads or writes the checkpoint",
    lambda p, x: RAW.SaveSlices(
        filename=p.canary, tensor_names=["a"], shapes_and_slices=["1 0,1"], data=[tf.constant([1.0])]
    ),
)
_effect(
    "merge_checkpoints",
    "reads or writes the checkpoint",
    lambda p, x: RAW.MergeV2Checkpoints(
        checkpoint_prefixes=[p.secret], destination_prefix=p.canary, delete_old_dirs=True
    ),
)
_effect("print_to_a_file", "prints", lambda p, x: RAW.PrintV2(input="x", output_stream="file://" + p.canary))
_effect("print_to_the_log", "prints", lambda p, x: RAW.Print(input=x, data=[x]))
_effect(
    "lines_of_a_file",
    "reads data sets",
    lambda p, x: tf.data.TextLineDataset(p.secret).take(1).get_single_element(),
)
_effect(
    "records_of_a_file", "reads data sets", lambda p, x: tf.data.TFRecordDataset(p.secret).take(1).get_single_element()
)
_effect(
    "fixed_records_of_a_file",
    "reads data sets",
    lambda p, x: tf.data.FixedLengthRecordDataset(p.secret, 4).take(1).get_single_element(),
)
_effect(
    "save_a_data_set",
    "reads data sets",
    lambda p, x: RAW.SaveDataset(
        input_dataset=tf.data.Dataset.range(3)._variant_tensor,
        path=p.canary,
        shard_func_other_args=[],
        shard_func=tf.function(lambda v: tf.constant(0, tf.int64)).get_concrete_function(tf.TensorSpec([], tf.int64)),
    ),
)
_effect(
    "cache_of_a_data_set",
    "reads data sets",
    lambda p, x: tf.data.Dataset.range(1).cache(p.canary).take(1).get_single_element(),
)
_effect(
    "whole_file_reader",
    "reads or writes files",
    lambda p, x: RAW.ReaderNumRecordsProducedV2(reader_handle=RAW.WholeFileReaderV2()),
)
_effect(
    "event_file",
    "writes event files",
    lambda p, x: RAW.CreateSummaryFileWriter(
        writer=RAW.SummaryWriter(), logdir=p.canaries, max_queue=1, flush_millis=1, filename_suffix="evil"
    ),
)
_effect(
    "debug_to_a_file",
    "writes what a debugger reads",
    lambda p, x: RAW.DebugIdentityV2(
        input=x,
        tfdbg_context_id="a",
        op_name="b",
        output_slot=0,
        tensor_debug_mode=1,
        debug_urls=["file://" + p.canary],
    ),
)
_effect(
    "debug_to_a_server",
    "writes what a debugger reads",
    lambda p, x: RAW.DebugIdentity(
        input=x, device_name="", tensor_name="", debug_urls=[f"grpc://127.0.0.1:{p.port}"], gated_grpc=False
    ),
)
_effect("python_function", "runs Python", lambda p, x: tf.numpy_function(lambda values: values, [x], tf.float32))
_effect("eager_python_function", "runs Python", lambda p, x: tf.py_function(lambda values: values, [x], tf.float32))
_effect(
    "custom_call_of_system",
    "calls code by its name",
    lambda p, x: gen_xla_ops.xla_custom_call_v2(
        operands=[x],
        call_target_name="system",
        backend_config=p.command,
        has_side_effect=True,
        result_dtypes=[tf.float32],
        result_shapes=[tf.TensorShape([1])],
    )[0],
)
_effect(
    "custom_call_of_execve",
    "calls code by its name",
    lambda p, x: gen_xla_ops.xla_custom_call_v2(
        operands=[x],
        call_target_name="execve",
        backend_config="",
        has_side_effect=False,
        result_dtypes=[tf.float32],
        result_shapes=[tf.TensorShape([1])],
    )[0],
)
_effect(
    "custom_call_of_abort",
    "calls code by its name",
    lambda p, x: gen_xla_ops.xla_custom_call(
        args=[x], target_name="abort", backend_config="", dtype=tf.float32, shape=tf.TensorShape([1])
    ),
)
_effect(
    "vocabulary_of_a_file",
    "reads or writes files",
    lambda p, x: (
        RAW.GenerateVocabRemapping(
            new_vocab_file=p.secret, old_vocab_file=p.secret, new_vocab_offset=0, num_new_vocab=1
        ).num_present
    ),
)
_effect(
    "rows_of_a_checkpoint",
    "reads or writes files",
    lambda p, x: RAW.LoadAndRemapMatrix(
        ckpt_path=p.secret,
        old_tensor_name="a",
        row_remapping=tf.constant([0], tf.int64),
        col_remapping=tf.constant([], tf.int64),
        initializing_values=tf.constant([], tf.float32),
        num_rows=1,
        num_cols=1,
    ),
)
_effect(
    "protobuf_descriptors_of_a_file",
    "reads or writes files",
    lambda p, x: (
        RAW.DecodeProtoV2(
            bytes=tf.constant([b""]),
            message_type="a",
            field_names=["b"],
            output_types=[tf.int32],
            descriptor_source=p.secret,
        ).sizes
    ),
)
_effect("abort", "writes what a debugger reads", lambda p, x: RAW.Abort(error_msg="", exit_without_error=True))
_effect(
    "collective",
    "opens connections",
    lambda p, x: RAW.CollectiveReduceV2(
        input=x, group_size=2, group_key=1, instance_key=1, ordering_token=[], merge_op="Add", final_op="Id"
    ),
)
_effect(
    "data_service",
    "opens connections",
    lambda p, x: RAW.DataServiceDatasetV2(
        dataset_id=1,
        processing_mode="parallel_epochs",
        address=f"127.0.0.1:{p.port}",
        protocol="grpc",
        job_name="",
        consumer_index=-1,
        num_consumers=-1,
        max_outstanding_requests=1,
        iteration_counter=RAW.DummyIterationCounter(),
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    ),
)
_effect(
    "file_system",
    "reads or writes files",
    lambda p, x: RAW.FileSystemSetConfiguration(scheme="file", key="a", value="b"),
)
_effect(
    "mutable_table",
    "lookup tables cannot be compiled",
    lambda p, x: RAW.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.int64),
)
_effect("queue", "queues keep state", lambda p, x: RAW.FIFOQueueV2(component_types=[tf.float32]))
_effect("text_operation", "text cannot be compiled", lambda p, x: RAW.StringLower(input="A"))
_effect("unknown_to_xla", "XLA has no kernel for it", lambda p, x: RAW.BesselJ0(x=x))

_node("unregistered_operation", "no operation that this version of the tool knows", "RunAnything")
_node("internal_operation", "TensorFlow's own", "_XlaRun")
_node("host_compute", "talks to other devices", "XlaHostCompute")
_node("launch", "talks to other devices", "XlaLaunch")
_node("infeed", "talks to other devices", "InfeedDequeue")
_node("receive", "talks to other devices", "Recv")
_node("tpu", "talks to other devices", "ConfigureDistributedTPU")
_node(
    "dump_tensor",
    "writes what a debugger reads",
    "DumpTensor",
    log_dir_path=_text(lambda places: places.canaries),
    tensor_name=_text("t"),
    file_name=_text("dump_tensor"),
)
_node(
    "calibration_statistics",
    "writes what a debugger reads",
    "CalibrationStatisticsSaver",
    output_file_path=_text(lambda places: places.canary),
)
_node("rpc_server", "opens connections", "RpcServer", server_address=_text("127.0.0.1:0"))
_node("batch_function", "talks to other devices", "BatchFunction")
_node("tflite_graph", "reads or writes files", "TfLiteSubgraphExecute")
_node("unfed_placeholder", "no input feeds it", "Placeholder")


@hostile("refused", "WriteFile (node evil")
def nested_in_control_flow(folder, places):
    """In a branch of a branch of a loop of a called function, on one input only."""

    @tf.function
    def write(x):
        RAW.WriteFile(filename=places.canary, contents="x", name="evil")
        return x + 1.0

    def branch(x):
        return tf.switch_case(tf.constant(1), [lambda: x, lambda: write(x)])

    def serve(x):
        y = tf.while_loop(
            lambda a: tf.reduce_max(a) > 1e30, lambda a: (tf.cond(a[0, 0] > 7.0, lambda: branch(a), lambda: a),), [x]
        )[0]
        return {"y": y}

    _save(folder, serve)


def _evil_function(places, name="evil_function"):
    """A function of one float tensor that writes the canary."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def write(x):
        RAW.WriteFile(filename=places.canary, contents="x", name="evil")
        return x

    function = write.get_concrete_function().function_def
    copy = type(function)()
    copy.CopyFrom(function)
    copy.signature.name = name
    return copy


def _calls_evil(name, says, op, key, *, function="evil_function"):
    """Register a model whose node `op` calls a function that writes."""

    def maker(folder, places):
        def change(saved, graph):
            graph.graph_def.library.function.add().CopyFrom(_evil_function(places, function))
            node = graph.graph_def.node.add(name="call", op=op)
            node.attr[key].func.name = function
            next(each for each in graph.graph_def.node if each.name == "y").input.append("^call")

        _v1(folder, _same, change=change)

    maker.__name__ = name
    hostile("refused", says)(maker)


_calls_evil("remote_call", "WriteFile (node evil", "RemoteCall", "f")
_calls_evil("gradient_of_a_function", "WriteFile (node evil", "SymbolicGradient", "f")
_calls_evil("called_by_any_attribute", "WriteFile (node evil", "NoOp", "whatever")
_calls_evil("reduction_of_a_data_set", "WriteFile (node evil", "ReduceDataset", "f")
_calls_evil("body_of_for", "WriteFile (node evil", "For", "body")


@hostile("refused", "the name of an operation")
def function_named_like_an_operation(folder, places):
    """TensorFlow looks into the model's functions before it looks at its own operations."""

    def change(saved, graph):
        function = graph.graph_def.library.function.add()
        function.CopyFrom(_evil_function(places, "Relu"))
        for node in list(function.node_def):
            if node.op == "WriteFile":
                function.node_def.remove(node)
        function.control_ret.clear()
        del function.signature.control_output[:]

    _v1(folder, lambda x: tf.identity(tf.nn.relu(x), name="y"), change=change)


def _recursion(folder, *names):
    def change(saved, graph):
        for name, called in zip(names, names[1:] + names[:1], strict=True):
            function = graph.graph_def.library.function.add()
            function.signature.name = name
            function.signature.input_arg.add(name="x", type=1)
            function.signature.output_arg.add(name="y", type=1)
            node = function.node_def.add(name="call", op="PartitionedCall", input=["x"])
            node.attr["f"].func.name = called
            node.attr["Tin"].list.type.append(1)
            node.attr["Tout"].list.type.append(1)
            function.ret["y"] = "call:output:0"
        _replace_output(graph, names[0])

    _v1(folder, _same, change=change)


def _replace_output(graph, function):
    """The output becomes a call of `function`."""
    node = next(each for each in graph.graph_def.node if each.name == "y")
    node.op = "PartitionedCall"
    node.attr.clear()
    node.attr["f"].func.name = function
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)


@hostile("refused", "calls itself")
def recursion(folder, places):
    _recursion(folder, "f")


@hostile("refused", "calls itself")
def mutual_recursion(folder, places):
    _recursion(folder, "f", "g", "h")


def _chain(folder, length, calls):
    def change(saved, graph):
        for level in range(length):
            function = graph.graph_def.library.function.add()
            function.signature.name = f"f{level}"
            function.signature.input_arg.add(name="x", type=1)
            function.signature.output_arg.add(name="y", type=1)
            last = "x"
            for number in range(calls):
                node = function.node_def.add(name=f"n{number}", op="PartitionedCall", input=[last])
                if level == length - 1:
                    node.op = "Neg"
                    node.attr["T"].type = 1
                    last = f"n{number}:y:0"
                else:
                    node.attr["f"].func.name = f"f{level + 1}"
                    node.attr["Tin"].list.type.append(1)
                    node.attr["Tout"].list.type.append(1)
                    last = f"n{number}:output:0"
            function.ret["y"] = last
        _replace_output(graph, "f0")

    _v1(folder, _same, change=change)


@hostile("refused", "nodes after its functions are inlined")
def functions_that_multiply(folder, places):
    """40 functions of 60 bytes, two calls each: 2 to the 40 nodes."""
    _chain(folder, 40, 2)


@hostile("refused", "nested deeper than")
def functions_nested_without_end(folder, places):
    _chain(folder, 5000, 1)


@hostile("refused", "the constants of the signature")
def constant_of_an_exabyte(folder, places):
    def change(saved, graph):
        node = graph.graph_def.node.add(name="bomb", op="Const")
        node.attr["dtype"].type = 1
        node.attr["value"].tensor.dtype = 1
        for _ in range(3):
            node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 19)
        node.attr["value"].tensor.float_val.append(1.0)
        next(each for each in graph.graph_def.node if each.name == "y").input.append("^bomb")

    _v1(folder, _same, change=change)


@hostile("refused", "which does not exist")
def node_that_is_missing(folder, places):
    _v1(folder, _same, change=lambda saved, graph: _output(graph).input.append("^nowhere"))


@hostile("refused", "which does not exist")
def function_that_is_missing(folder, places):
    _v1(folder, _same, change=lambda saved, graph: _replace_output(graph, "nowhere"))


def _output(graph):
    return next(each for each in graph.graph_def.node if each.name == "y")


@hostile("refused", "cannot load")
def circle_without_a_loop(folder, places):
    def change(saved, graph):
        for name, other in (("a", "b"), ("b", "a")):
            node = graph.graph_def.node.add(name=name, op="Neg", input=[other])
            node.attr["T"].type = 1
        _output(graph).input.append("^a")

    _v1(folder, _same, change=change)


@hostile("refused", "")
def sizes_below_zero(folder, places):
    def change(saved, graph):
        info = graph.signature_def["serving_default"].inputs["x"]
        info.tensor_shape.dim[1].size = -(1 << 62)

    _v1(folder, _same, change=change)


@hostile("refused", "is not one dense tensor")
def sparse_input(folder, places):
    def change(saved, graph):
        info = graph.signature_def["serving_default"].inputs["x"]
        info.coo_sparse.values_tensor_name = "x:0"

    _v1(folder, _same, change=change)


@hostile("refused", "lookup tables cannot be compiled")
def table_of_a_file(folder, places):
    """The table's initializer copies the secret into the model's weights."""
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            places.secret,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
        ),
        "",
    )
    module = tf.Module()
    module.table = table
    module.serve = tf.function(
        lambda x: {"y": x + tf.cast(tf.strings.length(table.lookup(tf.constant(0, tf.int64))), tf.float32)},
        input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")],
    )
    tf.saved_model.save(module, folder, signatures=module.serve)
    saved = _graph(folder)
    for node in saved.meta_graphs[0].graph_def.node:
        if node.op == "Const" and node.attr["dtype"].type == 7:
            node.attr["value"].tensor.string_val[:] = [places.secret.encode()]
    _write(folder, saved)


_MODULE = """module @m {
  func.func public @main(%arg0: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = LINE : (tensor<?x4xf32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}"""


def _module(name, says, line, *, serialize=False, outcome="refused", function=False):
    """Register a model of a StableHLO module whose one operation is `line`."""

    def maker(folder, places):
        text = _MODULE.replace("LINE", line.replace("COMMAND", places.command)).encode()
        if serialize:
            from tensorflow.compiler.mlir.stablehlo import stablehlo

            names = ("serialize_portable_artifact", "serialize_portable_artifact_str")
            text = next(getattr(stablehlo, each) for each in names if hasattr(stablehlo, each))(text, "1.0.0")

        def change(saved, graph):
            node = _output(graph)
            node.op = "XlaCallModule"
            node.attr.clear()
            node.attr["module"].s = text
            node.attr["version"].i = 5
            node.attr["Tin"].list.type.append(1)
            node.attr["Tout"].list.type.append(1)
            node.attr["Sout"].list.shape.add().dim.add(size=-1)
            node.attr["Sout"].list.shape[0].dim.add(size=4)
            node.attr["platforms"].list.s.append(b"CPU")
            if function:
                graph.graph_def.library.function.add().CopyFrom(_evil_function(places))
                node.attr["function_list"].list.func.add(name="evil_function")

        _v1(folder, _same, change=change)

    maker.__name__ = name
    hostile(outcome, says)(maker)


_module(
    "stablehlo_calls_system",
    "custom call of 'system'",
    'stablehlo.custom_call @system(%arg0) {backend_config = "COMMAND", has_side_effect = true}',
)
_module(
    "stablehlo_bytecode_calls_system",
    "custom call of 'system'",
    'stablehlo.custom_call @system(%arg0) {backend_config = "COMMAND"}',
    serialize=True,
)
_module(
    "stablehlo_feigns_another_target",
    "custom call of 'system'",
    '"stablehlo.custom_call"(%arg0) {a = "custom_call @Sharding", backend_config = "call_target_name = \\"Sharding\\"", '
    'call_target_name = "system"}',
)
_module(
    "stablehlo_talks_to_the_host",
    "operation stablehlo.",
    '"stablehlo.all_gather"(%arg0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}',
)
_module("stablehlo_that_is_none", "cannot be read by this toolchain", "what is this")
_module(
    "stablehlo_calls_a_function_that_writes",
    "WriteFile (node evil",
    "stablehlo.custom_call @tf.call_tf_function(%arg0) {tf.backend_config = {called_index = 0, has_token_input_output = false}}",
    function=True,
)


_module(
    "stablehlo_that_names_code_in_a_text",
    "",
    '"stablehlo.tanh"(%arg0) {a = "stablehlo.custom_call @system(%arg0)"}',
    outcome="harmless",
)


def _file(name, says, change):
    """Register a model whose files `change(folder, places)` harms."""

    def maker(folder, places):
        _v1(folder, _same, variable=True)
        change(folder, places)

    maker.__name__ = name
    hostile("refused", says)(maker)


def _instead(path, make):
    if os.path.isdir(path):
        os.rename(path, path + ".was")
    else:
        os.unlink(path)
    make(path)


def _pb(folder):
    return os.path.join(folder, "saved_model.pb")


def _data(folder):
    return os.path.join(folder, "variables", "variables.data-00000-of-00001")


def _elsewhere(folder, places):
    """The variables lie beside the secret."""
    other = os.path.join(os.path.dirname(places.secret), "variables")
    path = os.path.join(folder, "variables")
    os.rename(path, other)
    os.symlink(other, path)


def _deep(path):
    """Protobuf groups within groups: what a recursive reader falls over."""
    with open(path, "wb") as file:
        file.write(b"\x12" + b"\x12\x80\x80\x01" * 200_000)


_file(
    "graph_is_a_link_out",
    "leads out of the model's folder",
    lambda f, p: _instead(_pb(f), lambda path: os.symlink(p.secret, path)),
)
_file("graph_is_a_pipe", "is not a plain file", lambda f, p: _instead(_pb(f), os.mkfifo))
_file(
    "graph_is_a_device",
    "leads out of the model's folder",
    lambda f, p: _instead(_pb(f), lambda path: os.symlink("/dev/zero", path)),
)
_file("graph_is_a_folder", "is not a plain file", lambda f, p: _instead(_pb(f), os.mkdir))
_file("graph_is_nested_without_end", "damaged", lambda f, p: _instead(_pb(f), _deep))
_file("variables_are_a_link_out", "leads out of the model's folder", _elsewhere)
_file(
    "values_are_a_link_out",
    "leads out of the model's folder",
    lambda f, p: _instead(_data(f), lambda path: os.symlink(p.secret, path)),
)
_file("values_are_a_pipe", "is not a plain file", lambda f, p: _instead(_data(f), os.mkfifo))
_file(
    "index_is_a_link_to_memory",
    "leads out of the model's folder",
    lambda f, p: _instead(
        os.path.join(f, "variables", "variables.index"), lambda path: os.symlink("/proc/self/environ", path)
    ),
)
_file(
    "index_is_garbage",
    "damaged",
    lambda f, p: _instead(
        os.path.join(f, "variables", "variables.index"),
        lambda path: pathlib.Path(path).write_bytes(bytes(range(256)) * 99),
    ),
)


@hostile("refused", "has no value for the variable")
def restored_from_elsewhere(folder, places):
    """The restore operation names a tensor by a path."""

    def change(saved, graph):
        for node in graph.graph_def.node:
            if node.op == "Const" and node.name.endswith("tensor_names"):
                node.attr["value"].tensor.string_val[:] = [b"../../" + places.secret.encode()]

    _v1(folder, _same, variable=True, change=change)


@hostile("refused", "its value in the checkpoint")
def variable_of_another_size(folder, places):
    def change(saved, graph):
        for node in graph.graph_def.node:
            if node.op == "VarHandleOp":
                node.attr["shape"].shape.dim.add(size=1 << 40)

    _v1(folder, _same, variable=True, change=change)


# What a thorough author tries next: the same effects, at places that a list of names or a look at the graph may miss.


@hostile("refused", "ReadFile (node while/evil")
def loop_of_tensorflow_1_that_reads(folder, places):
    """Frames of TensorFlow 1 instead of a function: the body lies in the graph itself."""
    tf.compat.v1.disable_control_flow_v2()

    def body(x):
        length = tf.strings.length(RAW.ReadFile(filename=places.secret, name="evil"))
        return (x + tf.cast(length, tf.float32),)

    def build(x):
        return tf.identity(tf.compat.v1.while_loop(lambda a: tf.reduce_max(a) < 1e3, body, [x]), name="y")

    _v1(folder, build)
    tf.compat.v1.enable_control_flow_v2()


@hostile("refused", "XlaCustomCallV2 (node evil")
def custom_call_within_a_loop_of_a_called_function(folder, places):
    @tf.function
    def call(x):
        given = gen_xla_ops.xla_custom_call_v2(
            operands=[x],
            call_target_name="system",
            backend_config=places.command,
            has_side_effect=True,
            result_dtypes=[tf.float32],
            result_shapes=[tf.TensorShape([1, 4])],
            name="evil",
        )[0]
        return x + given

    _save(folder, lambda x: {"y": tf.while_loop(lambda a: tf.reduce_max(a) > 1e30, lambda a: (call(a),), [x])[0]})


def _pass_function(graph, places, argument):
    """The output calls `indirect`, whose body calls what its attribute `g` names: `argument`."""
    function = graph.graph_def.library.function.add()
    function.signature.name = "indirect"
    function.signature.input_arg.add(name="x", type=1)
    function.signature.output_arg.add(name="y", type=1)
    function.signature.attr.add(name="g", type="func")
    node = function.node_def.add(name="call", op="PartitionedCall", input=["x"])
    node.attr["f"].placeholder = "g"
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    function.ret["y"] = "call:output:0"
    _replace_output(graph, "indirect")
    _output(graph).attr["f"].func.attr["g"].func.name = argument


@hostile("refused", "takes 'f' from its caller")
def function_that_is_an_argument_of_a_function(folder, places):
    def change(saved, graph):
        graph.graph_def.library.function.add().CopyFrom(_evil_function(places))
        _pass_function(graph, places, "evil_function")

    _v1(folder, _same, change=change)


@hostile("refused", "takes 'f' from its caller")
def operation_that_is_an_argument_of_a_function(folder, places):
    _v1(folder, _same, change=lambda saved, graph: _pass_function(graph, places, "WriteFile"))


@hostile("refused", "WriteFile (node evil")
def function_in_place_of_an_operation(folder, places):
    """The node's operation is the name of a function, as TensorFlow 1 called them."""

    def change(saved, graph):
        graph.graph_def.library.function.add().CopyFrom(_evil_function(places))
        node = _output(graph)
        node.op = "evil_function"
        node.attr.clear()

    _v1(folder, _same, change=change)


@hostile("refused", "EagerPyFunc (node evil")
def python_within_a_called_function(folder, places):
    @tf.function
    def call(x):
        return tf.ensure_shape(RAW.EagerPyFunc(input=[x], token=b"pyfunc_0", Tout=[tf.float32], name="evil")[0], [1, 4])

    _save(folder, lambda x: {"y": x + call(x)})


@hostile("refused", "WriteFile (node evil")
def side_effect_without_a_result(folder, places):
    """Nothing uses what the function gives: it is run for its control output alone."""

    @tf.function
    def write(x):
        with tf.control_dependencies([RAW.WriteFile(filename=places.canary, contents="x", name="evil")]):
            return tf.identity(x)

    @tf.function
    def outer(x):
        write(x)
        return x + 1.0

    _save(folder, lambda x: {"y": outer(x)})


@hostile("refused", "its value in the checkpoint")
def checkpoint_of_an_exabyte(folder, places):
    """The index says of 4 bytes that they are a tensor of 2 to the 60."""
    _crafted(folder, {"shape": [1 << 20, 1 << 20, 1 << 18], "offset": 0, "size": 1 << 60})


@hostile("refused", "damaged")
def checkpoint_that_begins_before_its_file(folder, places):
    _crafted(folder, {"shape": [], "offset": -(1 << 40), "size": 4})


@hostile("refused", "damaged")
def checkpoint_in_a_thousand_files(folder, places):
    """The value lies in a file that is not there; its name comes from the index."""
    _crafted(folder, {"shape": [], "shard": 999, "offset": 0, "size": 4}, shards=1000)


def _crafted(folder, entry, shards=1):
    """A model whose one variable the checkpoint tells of as `entry` does."""

    def change(saved, graph):
        for node in graph.graph_def.node:
            if node.op == "VarHandleOp":
                for size in entry["shape"]:
                    node.attr["shape"].shape.dim.add(size=size)

    _v1(folder, _same, variable=True, change=change)
    fields = {"dtype": 1, **{key: entry[key] for key in ("offset", "size")}, "shard": entry.get("shard", 0)}
    shape = b"".join(_field(2, _field(1, size)) for size in entry["shape"])
    value = _field(1, fields["dtype"]) + _field(2, shape) + _field(3, fields["shard"])
    value += _field(4, fields["offset"]) + _field(5, fields["size"])
    header = _field(1, shards) + _field(3, _field(1, 1))
    with open(os.path.join(folder, "variables", "variables.index"), "wb") as file:
        file.write(_table([(b"", header), (b"factor", value)]))


def _varint(number):
    number &= (1 << 64) - 1
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _field(number, value):
    """A field of a protobuf."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _table(entries):
    """A table of LevelDB's kind of `entries`, sorted: a block for each, an index of these, and the footer."""
    content = b""

    def block(pairs):
        nonlocal content
        data = b"".join(_varint(0) + _varint(len(key)) + _varint(len(value)) + key + value for key, value in pairs)
        starts = struct.pack("<II", 0, 1)
        handle = _varint(len(content)) + _varint(len(data + starts))
        stored = data + starts + b"\0"
        checksum = _crc32c(stored)
        content += stored + struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)
        return handle

    handles = [(key, block([(key, value)])) for key, value in entries]
    meta, index = block([]), block(handles)
    footer = (meta + index).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    return content + footer


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# What follows is hostile where nothing is run: the signature itself is honest.


@hostile("harmless")
def initializer_that_writes(folder, places):
    _v1(folder, _same, init=lambda: RAW.WriteFile(filename=places.canary, contents="x"))


@hostile("harmless")
def initializer_that_reads(folder, places):
    """What it reads becomes the value of the variable that the signature uses."""

    def init():
        size = tf.cast(tf.strings.length(RAW.ReadFile(filename=places.secret)), tf.float32)
        with tf.compat.v1.variable_scope("", reuse=True):
            return tf.group(tf.compat.v1.assign(tf.compat.v1.get_variable("factor", use_resource=True), size))

    def build(x):
        return _same(x)

    _v1_reusing(folder, build, init)


def _v1_reusing(folder, build, init):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        factor = v1.get_variable("factor", initializer=2.0, use_resource=True)
        y = build(x * factor)
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y})
        builder = v1.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={"serving_default": signature}, main_op=init()
        )
        builder.save()


@hostile("harmless")
def initializer_that_calls_code(folder, places):
    def call():
        return gen_xla_ops.xla_custom_call_v2(
            operands=[tf.constant([1.0])],
            call_target_name="system",
            backend_config=places.command,
            has_side_effect=True,
            result_dtypes=[tf.float32],
            result_shapes=[tf.TensorShape([1])],
        )[0]

    _v1(folder, _same, init=lambda: tf.group(tf.function(call, jit_compile=True)()))


def _add_writer(graph, places):
    with tf.Graph().as_default() as extra:
        RAW.WriteFile(filename=tf.constant(places.canary, name="evil_path"), contents="x", name="evil")
    graph.graph_def.node.extend(extra.as_graph_def().node)


@hostile("harmless")
def restore_that_waits_for_a_writer(folder, places):
    def change(saved, graph):
        _add_writer(graph, places)
        restore = graph.saver_def.restore_op_name
        next(node for node in graph.graph_def.node if node.name == restore).input.append("^evil")

    _v1(folder, _same, variable=True, change=change)


@hostile("refused", "has no value for the variable")
def restore_that_is_a_writer(folder, places):
    def change(saved, graph):
        _add_writer(graph, places)
        graph.saver_def.restore_op_name = "evil"

    _v1(folder, _same, variable=True, change=change)


@hostile("harmless")
def restore_function_that_writes(folder, places):
    """TensorFlow 2: the function that restores the variables writes as well."""
    module = tf.Module()
    module.factor = tf.Variable(2.0)
    module.serve = tf.function(
        lambda x: {"y": x * module.factor}, input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")]
    )
    tf.saved_model.save(module, folder, signatures=module.serve)
    saved = _graph(folder)
    for function in saved.meta_graphs[0].graph_def.library.function:
        if "restore" in function.signature.name:
            evil = _evil_function(places)
            function.node_def.extend(evil.node_def)
            function.control_ret["evil"] = "evil"
            function.signature.control_output.append("evil")
    _write(folder, saved)


@hostile("harmless")
def another_signature_that_writes(folder, places):
    module = tf.Module()
    spec = tf.TensorSpec([None, 4], tf.float32, name="x")
    module.serve = tf.function(lambda x: {"y": x * 2.0}, input_signature=[spec])
    module.write = tf.function(
        _with(lambda x: RAW.WriteFile(filename=places.canary, contents="x")), input_signature=[spec]
    )
    tf.saved_model.save(module, folder, signatures={"serving_default": module.serve, "write": module.write})


@hostile("harmless")
def functions_that_nothing_calls(folder, places):
    def change(saved, graph):
        graph.graph_def.library.function.add().CopyFrom(_evil_function(places, "never_called"))
        graph.graph_def.library.function.add().CopyFrom(_evil_function(places, "MatMul"))
        gradient = graph.graph_def.library.gradient.add()
        gradient.function_name, gradient.gradient_func = "never_called", "MatMul"
        graph.graph_def.library.function[0].attr["api_implements"].s = b"MatMul"

    _v1(folder, _same, change=change)


@hostile("harmless")
def devices_of_others(folder, places):
    def change(saved, graph):
        for node in graph.graph_def.node:
            node.device = "/job:evil/replica:0/task:7/device:TPU:3"
            node.attr["_class"].list.s.append(b"loc:@nowhere")

    _v1(folder, _same, change=change)


@hostile("harmless")
def settings_of_a_session(folder, places):
    """A call that brings its own executor and configuration."""
    _save(folder, lambda x: {"y": tf.function(lambda a: a * 2.0)(x)})
    saved = _graph(folder)
    for node in saved.meta_graphs[0].graph_def.node:
        if "config_proto" in node.attr:
            node.attr["config_proto"].s = b"\xff" * 99
            node.attr["executor_type"].s = b"NO_SUCH_EXECUTOR"
    _write(folder, saved)


@hostile("harmless")
def assets_that_lie_elsewhere(folder, places):
    def change(saved, graph):
        graph.asset_file_def.add(filename="../../../../../.." + places.secret).tensor_info.name = "x:0"

    _v1(folder, _same, change=change)


@hostile("harmless")
def operations_of_its_own_description(folder, places):
    """The list of operations that comes with the file describes WriteFile as something harmless."""

    def change(saved, graph):
        graph.meta_info_def.stripped_op_list.op.add(name="Mul").attr.add(name="evil", type="func")

    _v1(folder, _same, change=change)


@hostile("harmless")
def fingerprint_of_another(folder, places):
    _v1(folder, _same)
    with open(os.path.join(folder, "fingerprint.pb"), "wb") as file:
        file.write(b"\xff" * 999)


@hostile("harmless")
def gradient_that_writes(folder, places):
    """A gradient of the model's own: it is registered by name, and run by nobody who only computes."""

    @tf.custom_gradient
    def double(x):
        def gradient(upstream):
            with tf.control_dependencies([RAW.WriteFile(filename=places.canary, contents="x", name="evil")]):
                return upstream * 2.0

        return x * 2.0, gradient

    module = tf.Module()
    module.serve = tf.function(
        lambda x: {"y": double(x)}, input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")]
    )
    tf.saved_model.save(
        module, folder, signatures=module.serve, options=tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    )


@hostile("harmless")
def text_beside_the_graph(folder, places):
    """Other loaders take the text, or files of Keras and of assets, which are other models."""
    _v1(folder, _same)
    saved = _graph(folder)
    _add_writer(saved.meta_graphs[0], places)
    _output(saved.meta_graphs[0]).input.append("^evil")
    pathlib.Path(folder, "saved_model.pbtxt").write_text(str(saved))
    pathlib.Path(folder, "keras_metadata.pb").write_bytes(saved.SerializeToString())
    os.makedirs(os.path.join(folder, "assets.extra"))
    pathlib.Path(folder, "assets.extra", "$(touch ${HOME}).py").write_text(f"import os; os.system({places.command!r})")


@hostile("harmless")
def another_graph_with_more_tags(folder, places):
    def change(saved, graph):
        other = saved.meta_graphs.add()
        other.CopyFrom(graph)
        other.meta_info_def.tags.append("gpu")
        _add_writer(other, places)
        _output(other).input.append("^evil")

    _v1(folder, _same, change=change)


@hostile("endless")
def loop_without_end(folder, places):
    _save(folder, lambda x: {"y": tf.while_loop(lambda a: True, lambda a: (a + 1.0,), [x])[0]})


@hostile("endless")
def memory_without_measure(folder, places):
    def serve(x):
        size = tf.cast(tf.reduce_max(x), tf.int32) * 100_000
        return {"y": x + tf.reduce_sum(tf.fill([size, size], 1.0))}

    _save(folder, serve)


def main():
    root, secret, canaries, port = sys.argv[1:]
    places = Places(secret, canaries, int(port))
    corpus = {}
    for name, (make, outcome, says) in _MAKERS.items():
        places.name = name
        make(os.path.join(root, name), places)
        corpus[name] = {"outcome": outcome, "says": says}
    with open(os.path.join(root, "corpus.json"), "w", encoding="utf-8") as file:
        json.dump(corpus, file, indent=1)


if __name__ == "__main__":
    main()
