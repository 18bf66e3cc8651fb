"""The folders of the tool, and numbers in environment variables. settings_file.py reads the user's settings.yaml."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tfaot_pkg.errors import TfaotError

_NAME = "tfaot-pkg"
_SETTINGS = "settings.yaml"

DEFAULT_PREFIX = Path("external")
"""Of one project, in the folder where its commands are run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Caches, which may be deleted at any time, data, which may not, and what the user writes.

    `TFAOT_HOME` puts all below one folder; otherwise they follow XDG's rules.
    """

    cache: Path
    data: Path
    settings_file: Path | None = None
    """None: no settings of the user hold here, as in the builds of a night."""

    @classmethod
    def of_user(cls) -> Folders:
        home = os.environ.get("TFAOT_HOME")
        if home:
            # Absolute, because subprocesses run in other folders.
            root = Path(home).expanduser().absolute()
            return cls(cache=root / "cache", data=root / "data", settings_file=root / _SETTINGS)
        return cls(
            cache=Path(platformdirs.user_cache_dir(_NAME)),
            data=Path(platformdirs.user_data_dir(_NAME)),
            settings_file=Path(platformdirs.user_config_dir(_NAME)) / _SETTINGS,
        )

    @property
    def builds(self) -> Path:
        """The build cache: one folder per stage and key."""
        return self.cache / "builds"

    @property
    def toolchains(self) -> Path:
        """One virtual environment per TensorFlow version and Python."""
        return self.cache / "toolchains"

    @property
    def downloads(self) -> Path:
        """Source archives by SHA-256, git clones by URL."""
        return self.cache / "downloads"

    @property
    def logs(self) -> Path:
        return self.cache / "logs"

    @property
    def trust(self) -> Path:
        """What was verified of each signed registry. Not a cache: without it, a rollback would not be noticed."""
        return self.data / "trust"

    @property
    def registry(self) -> Path:
        """The default registry."""
        return self.data / "registry"

    @property
    def conan_home(self) -> Path:
        """The tool's own Conan home: no remotes, not shared with the user's other work."""
        return self.data / "conan"


def number_from(
    variable: str, default: float, least: float, most: float, *, error: type[TfaotError], unit: str = ""
) -> float:
    """The number from `least` to `most` in the environment variable; `default` if it is unset or empty.

    Raises `error`.
    """
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    # Every comparison with NaN is false, so a user's "nan" is rejected too.
    if not least <= value <= most:
        kind = f"a number of {unit}" if unit else "a number"
        raise error(
            f"{variable} must be {kind} from {least:g} to {most:,.12g}, got {text!r}",
            hint=f"correct or unset {variable}",
        )
    return value
