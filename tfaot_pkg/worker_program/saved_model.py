"""Reading a SavedModel from disk, with every fault of it in plain words."""

import os

from faults import ModelFault

_OUTSIDE = frozenset(
    """
    WriteFile ReadFile MatchingFiles PrintV2 Print ImmutableConst ImportEvent LoadDataset LoadAndRemapMatrix
    Save SaveSlices Restore RestoreSlice WriteImageSummary WriteSummary CreateSummaryFileWriter CreateSummaryDbWriter
    WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteRawProtoSummary WriteScalarSummary
    PyFunc PyFuncStateless EagerPyFunc
    WholeFileReader WholeFileReaderV2 TextLineReader TextLineReaderV2 TFRecordReader TFRecordReaderV2
    FixedLengthRecordReader FixedLengthRecordReaderV2 LMDBReader TextLineDataset TFRecordDataset TFRecordDatasetV2
    FixedLengthRecordDataset FixedLengthRecordDatasetV2 LMDBDataset ExperimentalLMDBDataset SqlDataset
    ExperimentalSqlDataset CSVDataset CSVDatasetV2 ExperimentalCSVDataset
    SaveDataset SaveDatasetV2 SnapshotDataset SnapshotDatasetV2 SnapshotDatasetReader SnapshotChunkDataset CacheDataset
    CacheDatasetV2 DatasetToTFRecord ExperimentalDatasetToTFRecord DistributedSave DataServiceDataset
    DataServiceDatasetV2 DataServiceDatasetV3 DataServiceDatasetV4 RegisterDataset RegisterDatasetV2 GeneratorDataset
    RpcCall RpcServerStart RpcServer RpcClient RemoteCall
    DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugNumericSummary DebugNumericSummaryV2 DebugNanCount
    """.split()
)
"""Operations that reach outside of the model: files, network, Python. Loading such a model could run them."""

_WRITES_OF_SAVER = frozenset("SaveV2 MergeV2Checkpoints".split())
"""Every exported model holds these, for saving it again. Loading runs them only where something else reaches them."""


def read(folder: str):
    """The parsed `saved_model.pb` of `folder`; ModelFault where it is missing, truncated or holds no graph."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(folder, "saved_model.pb")
    if not os.path.isdir(folder):
        raise ModelFault(f"no SavedModel folder at {folder}", "name the folder that holds saved_model.pb")
    if not os.path.isfile(path):
        found = ", ".join(sorted(os.listdir(folder))[:8]) or "nothing"
        raise ModelFault(f"{folder} is not a SavedModel: saved_model.pb is missing (found {found})")
    model = saved_model_pb2.SavedModel()
    try:
        with open(path, "rb") as file:
            model.ParseFromString(file.read())
    except DecodeError as error:
        raise ModelFault(f"{path} is damaged: it is no SavedModel protobuf", "copy or export it again") from error
    if not model.meta_graphs:
        raise ModelFault(f"{path} is damaged or empty: it holds no graph", "copy or export it again")
    return model


def meta_graph(model, tags: list):
    """The graph of `model` with exactly these tags; ModelFault listing those that exist."""
    for graph in model.meta_graphs:
        if set(graph.meta_info_def.tags) == set(tags):
            return graph
    existing = "; ".join(", ".join(graph.meta_info_def.tags) or "(none)" for graph in model.meta_graphs)
    raise ModelFault(f"the SavedModel has no graph with tags {', '.join(tags)}; it has: {existing}", "set model.tags")


def signature_names(graph) -> list:
    """Signatures that a caller can use: TensorFlow's own (`__saved_model_init_op`) left out."""
    return sorted(name for name, signature in graph.signature_def.items() if signature.outputs and name[:2] != "__")


def require_signature(graph, name: str):
    """The signature `name`; ModelFault listing those that exist."""
    names = signature_names(graph)
    if name not in names:
        listing = ", ".join(names) or "none"
        raise ModelFault(f"the SavedModel has no signature {name!r}; it has: {listing}", "set model.serving_key")
    return graph.signature_def[name]


def refuse_outside_operations(graph) -> None:
    """ModelFault where loading or running the graph could run an operation that reaches outside of the model."""
    from operations import nodes_of

    found = [node for node in nodes_of(graph.graph_def) if node.op in _OUTSIDE]
    found += [node for node in _reached(graph) if node.op in _WRITES_OF_SAVER]
    if found:
        listing = ", ".join(sorted({f"{node.op} (node {node.name})" for node in found}))
        raise ModelFault(
            f"the model holds operations that read or write files, run Python or print: {listing}",
            "such a model is not loaded; export it without them",
        )


def _reached(graph) -> list:
    """The nodes that loading the model or calling its signatures can run: all but the saver's own."""
    functions = {function.signature.name: function.node_def for function in graph.graph_def.library.function}
    nodes = {node.name: node for node in graph.graph_def.node}
    called = [name for object_ in graph.object_graph_def.nodes for name in _functions_of(object_)]
    called += list(graph.object_graph_def.concrete_functions)
    waiting, found, seen = _nodes_at(_roots(graph), nodes), [], set()
    waiting += [node for name in called for node in functions.get(name, ())]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        waiting += _nodes_at(node.input, nodes)
        waiting += [inner for name in _calls(node) for inner in functions.get(name, ())]
    return found


def _roots(graph) -> list:
    """Names of tensors and operations that are run: outputs of signatures, initializers, the saver's restore."""
    names = [info.name for signature in graph.signature_def.values() for info in signature.outputs.values()]
    names.append(graph.saver_def.restore_op_name)
    for key in ("saved_model_main_op", "legacy_init_op", "saved_model_initializers", "table_initializer"):
        names += graph.collection_def[key].node_list.value if key in graph.collection_def else []
    return names


def _functions_of(object_) -> list:
    return [object_.bare_concrete_function.concrete_function_name, *object_.function.concrete_functions]


def _nodes_at(names, nodes: dict) -> list:
    found = (nodes.get(name.lstrip("^").partition(":")[0]) for name in names)
    return [node for node in found if node is not None]


def _calls(node) -> list:
    """Names of the functions that a node calls; a node whose operation is a function calls that."""
    names = [node.op]
    for value in node.attr.values():
        names += [value.func.name, *(function.name for function in value.list.func)]
    return names


def require_variables(folder: str, graph) -> None:
    """ModelFault where the graph has variables but their files are missing or damaged."""
    if not any(node.op in ("VarHandleOp", "VariableV2", "Variable") for node in graph.graph_def.node):
        return
    prefix = os.path.join(folder, "variables", "variables")
    if not os.path.isfile(prefix + ".index"):
        raise ModelFault(
            f"the SavedModel's variables are missing: no file {prefix}.index", "copy or export it again, whole"
        )
    try:
        _read_all(prefix)
    except Exception as error:  # which one depends on what is damaged and on TensorFlow's version
        text = " ".join(str(error).split())[:300]
        raise ModelFault(
            f"the SavedModel's variables ({prefix}.*) are damaged: {text}", "copy or export it again, whole"
        ) from error


def _read_all(prefix: str) -> None:
    """Read every variable, which checks its checksum; no operation of the model's is run for that."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)
