"""Taking a worker's result out of the store: nothing that it says is believed.

What is copied into the state folder has the sizes and digests that the worker signed, and fits the request. The
publisher checks it again, like any other result (recheck.py). From here on nobody reads the store, where somebody could
replace it.
"""

from __future__ import annotations

from pathlib import Path

from tfaot_pkg.errors import StorageError, TfaotError, TrustError
from tfaot_pkg.ground.documents import read, read_json
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.ground.wording import printable
from tfaot_pkg.nightly.farm.messages import Lease, Told
from tfaot_pkg.nightly.farm.store import Store, fetch, get
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.pipeline.publish import Release
from tfaot_pkg.registry.entry import RegistryEntry, parse_index
from tfaot_pkg.registry.files.layout import LATENCY, PREFIX
from tfaot_pkg.registry.reader import FILES

_MOST_TOLD = 4 << 20
_MOST_LOG = 16 << 20
_MOST_TEXT, _MOST_WORDS = 20_000, 200
_HINT = "its worker wrote it"


def collect(store: Store, lease: Lease, request: Request, results: Results) -> Attempt:
    """The end of the build of `lease`; a verified result is in `results` then, a failure is not.

    A result that is not what it says it is becomes a fault of its worker. Raises NetworkError, StorageError (our disk).
    """
    try:
        told = read(Told, get(store, lease.result, _MOST_TOLD), "the result", error=TrustError, hint=_HINT)
        if told.offer != lease.offer:
            raise TrustError("it is about another build")
        attempt = _attempt(told, lease, request)
        _append_log(store, told, request.log)
        if attempt.kind == "verified":
            _store(store, told, attempt, request, results)
    except TrustError as error:
        return refused(lease, request, error)
    return attempt


def refused(lease: Lease, request: Request, error: TfaotError) -> Attempt:
    """The attempt of a worker whose result is not taken."""
    return Attempt(
        kind="infrastructure failed",
        night=request.night,
        error=f"the result of the worker {lease.worker} is refused: {error.message}",
        error_class="refused result",
        worker=lease.worker,
    )


def _attempt(told: Told, lease: Lease, request: Request) -> Attempt:
    return Attempt(
        kind=told.kind,
        night=request.night,
        seconds=max(0.0, told.seconds),
        memory=max(0, told.memory),
        error=told.error[:_MOST_TEXT],
        error_class=printable(told.error_class[:_MOST_WORDS]),
        figures=told.figures,
        builder=printable(told.builder[:_MOST_WORDS]),
        worker=lease.worker,
    )


def _append_log(store: Store, told: Told, log: Path) -> None:
    if not told.log:
        return
    text = get(store, told.log, _MOST_LOG)
    with storage_errors(f"write {log}"), log.open("ab") as file:
        file.write(text)


def _store(store: Store, told: Told, attempt: Attempt, request: Request, results: Results) -> None:
    entry = _entry(told.line, request)
    size = sum(blob.size for blob in entry.blobs.values())
    if size > request.policy.output:
        raise TrustError(f"its package has {size:,} bytes: policy.output allows {request.policy.output:,}")
    with results.scratch() as scratch, temporary_folder(scratch, prefix="") as folder:
        blobs: dict[str, Path | bytes] = {}
        for role, blob in entry.blobs.items():
            if blob.size != fetch(store, blob.sha256, folder / role, blob.size):
                raise TrustError(f"its {role} does not have the size that its index line gives")
            blobs[role] = folder / role
        results.put(request.decision.key, attempt, Release(entry=entry, blobs=blobs))


def _entry(line: str, request: Request) -> RegistryEntry:
    """The entry in an index line, for the decision of `request`. Raises TrustError."""
    decision = request.decision
    try:
        (one,) = parse_index(line.encode(), "the index line", read_json(line)["name"])
        entry = one.entry
        if entry is None:
            raise ValueError("written by a newer version of tfaot-pkg")
    except (ValueError, KeyError, TypeError, TfaotError) as error:
        raise TrustError(f"its index line is damaged: {error}") from error
    if (entry.key, entry.version) != (decision.key, decision.release):
        raise TrustError(f"it is {entry}, not {decision.task.id}")
    # Files are called after roles.
    if unknown := sorted(set(entry.blobs) - {PREFIX, LATENCY, *FILES}):
        raise TrustError(f"its index line names a blob {unknown[0]!r}")
    return entry


def blobs_of(store: Store, lease: Lease) -> list[str]:
    """The blobs of a result, to be dropped: as far as its own documents tell."""
    try:
        told = read(Told, get(store, lease.result, _MOST_TOLD), "the result", error=TrustError, hint=_HINT)
        line = read_json(told.line)["blobs"] if told.line else {}
        return [lease.result, *filter(None, [told.log]), *(str(one["sha256"]) for one in line.values())]
    except (ValueError, KeyError, TypeError, AttributeError, TrustError, StorageError):
        return []
