"""Windows that move over NHWC images: the fields of `Window` in tfaot_kernels/kernels.h."""


def window_of(view, node, size):
    """The fields of `Window` for a kernel of `size`, None if `node` does not work on an NHWC image of each row."""
    source, result = view.row_shape(view.input(node, 0)), view.row_shape((node.name, 0))
    if node.attr["data_format"].s not in (b"", b"NHWC") or len(size) != 2 or source is None or result is None:
        return None
    if source[0] != 1 or result[0] != 1 or len(source[1]) != 3:
        return None
    strides, dilations = (list(node.attr[name].list.i) or [1] * 4 for name in ("strides", "dilations"))
    window: dict = {"channels": source[1][2]}
    for axis, edge, name in ((0, "pad_top", "height"), (1, "pad_left", "width")):
        window |= {
            f"in_{name}": source[1][axis],
            f"out_{name}": result[1][axis],
            name: int(size[axis]),
            f"stride_{name}": strides[axis + 1],
            f"dilation_{name}": dilations[axis + 1],
        }
        window[edge] = _padding(node, window, name, axis)
    return window


def _padding(node, window: dict, name: str, axis: int) -> int:
    """What is padded before the image along an axis (tf.nn.convolution's rules)."""
    padding = node.attr["padding"].s
    if padding == b"EXPLICIT":
        return int(node.attr["explicit_paddings"].list.i[2 * (axis + 1)])
    return max(0, _reach(window, name) - window[f"in_{name}"]) // 2 if padding == b"SAME" else 0


def _reach(window: dict, name: str) -> int:
    """How far the last window reaches, from where the first one begins."""
    steps = (window[f"out_{name}"] - 1) * window[f"stride_{name}"]
    return steps + (window[name] - 1) * window[f"dilation_{name}"] + 1


def is_inside(window: dict) -> bool:
    """Whether no window sees padding."""
    if window["pad_top"] or window["pad_left"]:
        return False
    return all(_reach(window, name) <= window[f"in_{name}"] for name in ("height", "width"))
