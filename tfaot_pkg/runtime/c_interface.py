"""The C interface of a model's library (tfaot/c_api.h), by ctypes: its structures and functions.

Calls release the interpreter's lock, so that threads compute at the same time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.runtime.permissions import TILES, may_use_tiles

ENTRY_POINT = "tfaot_model_entry"
ABI_VERSION = 1
_MESSAGE_SIZE = 256  # TFAOT_MESSAGE_SIZE
_BUSY = 6  # TFAOT_BUSY
_SCRATCH_ALIGNMENT = 64


# These structures repeat tfaot/c_api.h. Fields are only added at the end; struct_size says which ones exist.
class CTensor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("row_elements", ctypes.c_int64),
        ("element_size", ctypes.c_int32),
        ("has_batch_axis", ctypes.c_int32),
    )


class CSymbol(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("minimum", ctypes.c_size_t), ("maximum", ctypes.c_size_t))


class CState(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("input", ctypes.c_size_t),
        ("output", ctypes.c_int64),
        ("initial", ctypes.c_void_p),
    )


class CSignature(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("table", ctypes.c_void_p),
        ("num_inputs", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(ctypes.c_size_t)),
        ("num_outputs", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(ctypes.c_size_t)),
    )


class CTerm(ctypes.Structure):
    _fields_ = (
        ("axis", ctypes.c_int32),
        ("num_symbols", ctypes.c_int32),
        ("symbols", ctypes.POINTER(ctypes.c_int32)),
        ("factor", ctypes.c_int64),
    )


class CInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("alignment", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("uid", ctypes.c_char_p),
        ("toolchain", ctypes.c_char_p),
        ("num_inputs", ctypes.c_size_t),
        ("inputs", ctypes.POINTER(CTensor)),
        ("num_outputs", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(CTensor)),
        ("num_batch_sizes", ctypes.c_size_t),
        ("batch_sizes", ctypes.POINTER(ctypes.c_int64)),
        ("num_targets", ctypes.c_size_t),
        ("targets", ctypes.POINTER(ctypes.c_char_p)),
        ("batch_costs", ctypes.POINTER(ctypes.c_double)),
        ("rows_independent", ctypes.c_int32),
        ("any_batch_size", ctypes.c_int32),
        ("num_symbols", ctypes.c_size_t),
        ("symbols", ctypes.POINTER(CSymbol)),
        ("input_axes", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("output_axes", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("num_states", ctypes.c_size_t),
        ("states", ctypes.POINTER(CState)),
        ("num_signatures", ctypes.c_size_t),
        ("signatures", ctypes.POINTER(CSignature)),
        ("output_terms", ctypes.POINTER(ctypes.POINTER(CTerm))),
    )


class CTeam(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("size", ctypes.c_size_t), ("run", ctypes.c_void_p))


class CThreadPool(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_uint64 * 32),)


_Pointers = ctypes.POINTER(ctypes.c_void_p)
_Message = (ctypes.c_char_p, ctypes.c_size_t)


class CModel(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("info", ctypes.POINTER(CInfo)),
        ("create", ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), *_Message)),
        ("destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, _Pointers, _Pointers)),
        ("message", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("target", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("memory", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)),
        ("select", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), *_Message)),
        ("code_target", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64)),
        ("compute", ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, _Pointers, _Pointers, ctypes.c_void_p, ctypes.c_size_t,
            *_Message)),
        ("kept_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t)),
        ("release", ctypes.CFUNCTYPE(None)),
        ("compute_sized", ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_size_t), _Pointers, _Pointers,
            ctypes.c_void_p, ctypes.c_size_t, *_Message)),
        ("run_sized", ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_size_t), _Pointers, _Pointers)),
        ("state_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t)),
        ("save_state", ctypes.CFUNCTYPE(
            ctypes.c_int32, _Pointers, ctypes.c_void_p, ctypes.c_size_t, *_Message)),
        ("restore_state", ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t, _Pointers, *_Message)),
        ("team_scratch_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t)),
        ("compute_with_team", ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_size_t), _Pointers, _Pointers,
            ctypes.POINTER(CTeam), ctypes.c_void_p, ctypes.c_size_t, *_Message)),
        ("serve_thread_pool", ctypes.CFUNCTYPE(None, ctypes.POINTER(CThreadPool))),
        ("stop_thread_pool", ctypes.CFUNCTYPE(None, ctypes.POINTER(CThreadPool))),
        ("run_on_thread_pool", ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)),
        ("permit", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)),
    )  # fmt: skip


class LentTeam(Protocol):
    """Threads that compute a call together (runtime/team.py)."""

    @property
    def size(self) -> int: ...

    def lent(self) -> Any:
        """The address of a CTeam."""
        ...


class Caller(Protocol):
    """Calls the code of one target. Raises RunError with the library's message."""

    @property
    def target(self) -> str: ...

    @property
    def memory(self) -> int:
        """Bytes of scratch memory that the library holds."""
        ...

    def use_tiles(self, use: bool = True) -> bool:
        """Use tiles of the CPU (AMX) from now on, or none; whether the code has use for them and Linux permits it."""
        ...

    def scratch_bytes(self, batch_size: int) -> int:
        """Bytes of an array that `run` takes as scratch memory."""
        ...

    def run(
        self, batch_size: int, inputs: list[Array], outputs: list[Array], scratch: Array | None, sizes: Sequence[int]
    ) -> None:
        """Compute a batch; `sizes` are those of the model's symbols."""
        ...


class SharedCode:
    """Code that any number of threads may call at a time. Without scratch memory, the library keeps some for each.

    The threads of `team` compute calls together.
    """

    def __init__(self, path: Path, table: Any, target: str | None, team: LentTeam | None) -> None:
        self._table, self._team = table, team
        self._name = table.info.contents.name.decode()
        self._code = _made(path, table.select, target)

    @property
    def target(self) -> str:
        return str(self._table.code_target(self._code).decode())

    @property
    def memory(self) -> int:
        return int(self._table.kept_bytes())

    def address(self) -> tuple[int, int] | None:
        """The addresses of `compute` and of the code; None if a team computes calls together."""
        compute, code = ctypes.cast(self._table.compute, ctypes.c_void_p).value, self._code.value
        return None if self._team is not None or not compute or not code else (compute, code)

    def use_tiles(self, use: bool = True) -> bool:
        if self._table.struct_size < CModel.permit.offset + CModel.permit.size:
            return False  # older libraries end before
        if not self._table.permit(self._code, 0) & TILES or not may_use_tiles():
            return False
        self._table.permit(self._code, TILES if use else 0)
        return True

    def scratch_bytes(self, batch_size: int) -> int:
        if self._team is None:
            size = int(self._table.scratch_bytes(self._code, batch_size))
        else:
            size = int(self._table.team_scratch_bytes(self._code, batch_size, self._team.size))
        if size == 0:
            raise RunError(f"model {self._name}: there is no batch of {batch_size} rows")
        return size + _SCRATCH_ALIGNMENT - 1  # arrays may begin anywhere: the aligned part begins up to 63 bytes later

    def run(
        self, batch_size: int, inputs: list[Array], outputs: list[Array], scratch: Array | None, sizes: Sequence[int]
    ) -> None:
        address, size = (None, 0) if scratch is None else self._aligned(batch_size, scratch)
        message = ctypes.create_string_buffer(_MESSAGE_SIZE)
        arrays, memory = (_addresses(inputs), _addresses(outputs)), (address, size, message, _MESSAGE_SIZE)
        at = (ctypes.c_size_t * len(sizes))(*sizes) if sizes else None
        if self._team is not None:
            team = self._team.lent()
            status = self._table.compute_with_team(self._code, batch_size, at, *arrays, team, *memory)
        elif at is not None:
            status = self._table.compute_sized(self._code, batch_size, at, *arrays, *memory)
        else:
            status = self._table.compute(self._code, batch_size, *arrays, *memory)
        if status != 0:
            raise RunError(message.value.decode(errors="replace"))

    def _aligned(self, batch_size: int, scratch: Array) -> tuple[int, int]:
        flags = scratch.flags
        if scratch.dtype != np.uint8 or not (flags.c_contiguous and flags.writeable):
            raise RunError(f"model {self._name}: scratch memory must be a contiguous, writable array of uint8")
        needed = self.scratch_bytes(batch_size)
        if scratch.nbytes < needed:
            raise RunError(
                f"model {self._name}: scratch memory for {batch_size} rows has {scratch.nbytes} bytes, "
                f"scratch_bytes({batch_size}) is {needed}"
            )
        shift = -scratch.ctypes.data % _SCRATCH_ALIGNMENT
        return scratch.ctypes.data + shift, scratch.nbytes - shift


class Instance:
    """An instance of a library that has no code for all threads: one thread runs at a time, the others wait."""

    def __init__(self, path: Path, table: Any, target: str | None) -> None:
        self._table = table
        self._name = table.info.contents.name.decode()
        self._lock = threading.Lock()
        self._instance = _made(path, table.create, target)

    def __del__(self) -> None:
        # Not set if the constructor failed.
        if getattr(self, "_instance", None):
            self._table.destroy(self._instance)

    @property
    def target(self) -> str:
        return str(self._table.target(self._instance).decode())

    @property
    def memory(self) -> int:
        return int(self._table.memory(self._instance))

    def use_tiles(self, use: bool = True) -> bool:
        return False

    def scratch_bytes(self, batch_size: int) -> int:
        raise self._too_old()

    def run(
        self, batch_size: int, inputs: list[Array], outputs: list[Array], scratch: Array | None, sizes: Sequence[int]
    ) -> None:
        if sizes:
            raise AssertionError("libraries without code for all threads have no symbols")
        if scratch is not None:
            raise self._too_old()
        with self._lock:
            status = self._table.run(self._instance, batch_size, _addresses(inputs), _addresses(outputs))
            if status == _BUSY:  # the instance's message is that of the other thread's call
                raise RunError(f"model {self._name}: this instance is in use by another thread")
            if status != 0:
                raise RunError(self._table.message(self._instance).decode(errors="replace"))

    def _too_old(self) -> RunError:
        return RunError(
            f"model {self._name}: its library is too old to take scratch memory",
            hint="build the model again",
        )


def initial_state(info: Any, number: int) -> Array:
    """A copy of the trained value of the state `number`, as bytes."""
    tensor = info.inputs[info.states[number].input]
    size = tensor.row_elements * tensor.element_size
    values: Array = np.frombuffer(ctypes.string_at(info.states[number].initial, size), np.uint8).copy()
    return values


def saved_state(table: Any, tensors: list[Array]) -> bytes:
    """The state as bytes; `tensors` are contiguous. Raises RunError with the library's message."""
    made = ctypes.create_string_buffer(table.state_bytes())
    message = ctypes.create_string_buffer(_MESSAGE_SIZE)
    if table.save_state(_addresses(tensors), made, len(made), message, _MESSAGE_SIZE) != 0:
        raise RunError(message.value.decode(errors="replace"))
    return made.raw


def restore_state(table: Any, content: bytes, tensors: list[Array]) -> None:
    """Read a saved state into `tensors`, which are contiguous. Raises RunError with the library's message."""
    message = ctypes.create_string_buffer(_MESSAGE_SIZE)
    if table.restore_state(content, len(content), _addresses(tensors), message, _MESSAGE_SIZE) != 0:
        raise RunError(message.value.decode(errors="replace"))


def caller_of(path: Path, table: Any, target: str | None, team: LentTeam | None) -> Caller:
    """The code of `target` (default: the best for this CPU); an instance of libraries without code for all threads."""
    # Older libraries have shorter tables, which end before `compute`.
    has_code = table.struct_size >= CModel.compute.offset + CModel.compute.size
    return SharedCode(path, table, target, team) if has_code else Instance(path, table, target)


_A_LIBRARY = (
    "load takes the name of an installed package, or its library: PREFIX/lib/libtfaot-model-NAME.so; for the file of a "
    "model: tfaot_pkg.compile(FILE)"
)


def table_of(path: Path) -> Any:
    """The table of a shared library. Raises RunError."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise RunError(f"cannot load {path}: {reason}", hint=_A_LIBRARY) from error
    try:
        entry = getattr(library, ENTRY_POINT)
    except AttributeError:
        raise RunError(f"{path} is not a model library: it has no function {ENTRY_POINT}", hint=_A_LIBRARY) from None
    entry.restype = ctypes.POINTER(CModel)
    table = entry().contents
    # A newer library is accepted: its table only has more fields at the end.
    if table.abi_version < ABI_VERSION:
        raise RunError(f"{path} has version {table.abi_version} of the C ABI, this tool needs at least {ABI_VERSION}")
    return table


def tables_of_signatures(table: Any) -> dict[str, Any]:
    """The tables of several signatures by name; empty if there is only one."""
    info = table.info.contents
    if info.struct_size < CInfo.signatures.offset + CInfo.signatures.size:
        return {}  # older libraries end before these fields
    found = (info.signatures[i] for i in range(info.num_signatures))
    return {each.name.decode(): CModel.from_address(each.table) for each in found}


def _made(path: Path, make: Any, target: str | None) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    message = ctypes.create_string_buffer(_MESSAGE_SIZE)
    wanted = None if target is None else target.encode()
    if make(wanted, ctypes.byref(made), message, _MESSAGE_SIZE) != 0:
        raise RunError(f"{path}: {message.value.decode(errors='replace')}")
    return made


def _addresses(arrays: list[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
