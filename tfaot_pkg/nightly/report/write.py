"""Writing a report: pages, report.json, junit.xml, summary.md."""

from __future__ import annotations

import json
from pathlib import Path

from tfaot_pkg.catalogue.render import HOME
from tfaot_pkg.catalogue.site import Site
from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.report.document import document
from tfaot_pkg.nightly.report.html import write_pages
from tfaot_pkg.nightly.report.junit import junit
from tfaot_pkg.nightly.report.markdown import markdown
from tfaot_pkg.nightly.report.report import Report
from tfaot_pkg.storage import locked, storage_errors

_LOCK, _LOCK_TIMEOUT = ".report.lock", 60


def write_report(report: Report, output: Path) -> None:
    """Write `report` into the folder `output`; an older report there is replaced, page by page, the first page last.

    In a folder of a catalogue, pages lead back to it. Raises StorageError, also where something else is in the folder.
    """
    _require_ours(output)
    with storage_errors(f"write the report {output}"):
        output.mkdir(parents=True, exist_ok=True)
        with locked(output / _LOCK, what=f"the report {output}", timeout=_LOCK_TIMEOUT):
            site = Site(root=output)
            site.write("report.json", json.dumps(document(report), indent=1).encode())
            site.write("junit.xml", junit(report))
            site.write("summary.md", markdown(report).encode())
            write_pages(site, report, catalogue="../" if (output.parent / HOME).exists() else "")


def _require_ours(output: Path) -> None:
    if output.is_dir() and not any((output / name).exists() for name in ("report.json", _LOCK)):
        if any(not path.name.startswith(".") for path in output.iterdir()):
            raise StorageError(
                f"{output} is not a report and not empty", hint="name a new folder with --output, or one that is empty"
            )
