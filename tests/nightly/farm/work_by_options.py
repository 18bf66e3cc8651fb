"""As `tfaot-pkg nightly worker` with the options of generated jobs, but its builds only sleep."""

from __future__ import annotations

import argparse
import sys

from tests.nightly.farm.work import main
from tests.nightly.nights import stub

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs=2)
    parser.add_argument("--results", required=True)
    parser.add_argument("--walltime", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--sleep", type=float, default=0.1)
    given = parser.parse_args()
    assert given.words == ["nightly", "worker"]
    sys.exit(
        main(
            {
                "url": given.results, "label": given.name, "program": list(stub(given.sleep)), "idle": 600.0,
                "walltime": 60.0 * int(given.walltime.removesuffix("min")), "tool": "", "lies": "",
            }
        )
    )  # fmt: skip
