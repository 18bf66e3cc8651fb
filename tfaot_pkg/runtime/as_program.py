"""`python -m tfaot_model_NAME`: where C++ finds the package, and what the model takes and gives."""
# This is the `__main__` of the packages that `tfaot-pkg export --wheel` writes.

from __future__ import annotations

import argparse
import sys

from tfaot_pkg.runtime.as_module import PREFIX, load


def main() -> None:
    parser = argparse.ArgumentParser(description=f"Without options: what the model in {PREFIX} takes and gives.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--prefix", action="store_true", help="print the prefix, for CMAKE_PREFIX_PATH")
    which.add_argument("--pkg-config", action="store_true", help="print the folder for PKG_CONFIG_PATH")
    asked = parser.parse_args()
    told: object = load() if not (asked.prefix or asked.pkg_config) else PREFIX
    sys.stdout.write(f"{PREFIX / 'lib' / 'pkgconfig' if asked.pkg_config else told}\n")


if __name__ == "__main__":
    main()
