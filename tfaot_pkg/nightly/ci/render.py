"""Jobs as the files that CI services, systemd and cron read. Pure."""

from __future__ import annotations

import functools
from typing import Literal

import jinja2

from tfaot_pkg import resources
from tfaot_pkg.nightly.ci.job import Job

System = Literal["github", "gitlab", "jenkins", "systemd", "cron"]
IN_REPOSITORY: frozenset[str] = frozenset({"github", "gitlab", "jenkins"})
"""Those whose jobs see a checkout of the repository, and nothing else of a machine."""

FILES: dict[System, tuple[str, ...]] = {
    "github": ("nightly.yml",),
    "gitlab": (".gitlab-ci.yml",),
    "jenkins": ("Jenkinsfile",),
    "systemd": ("tfaot-nightly.service", "tfaot-nightly.timer"),
    "cron": ("crontab",),
}


def render(system: System, job: Job) -> dict[str, str]:
    """The files of `system` by name, with `job` in them."""
    names = FILES[system]
    return {name: _environment().get_template(f"{system}/{name.lstrip('.')}.j2").render(job=job) for name in names}


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates() / "ci"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
    )
