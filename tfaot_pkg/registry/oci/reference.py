"""Where an artifact is: a repository of an OCI registry, or an image layout in a folder, and a tag or digest there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.http.site import Site, without_secrets
from tfaot_pkg.registry.remote.address import Address, is_loopback

SCHEME = "oci://"
"""What an artifact in a registry begins with, as Helm writes it."""
LAYOUT = "oci:"
"""What an image layout in a folder begins with, as skopeo writes it."""

# distribution-spec, "Pulling manifests"; the length of host and repository is what clients allow.
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}"
_REFERENCE = re.compile(
    rf"(?P<host>{_HOST})/(?P<repository>{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?", re.ASCII
)
_LAYOUT = re.compile(rf"(?P<folder>.+?)(?::(?P<tag>{_TAG})|@(?P<digest>{_DIGEST}))?", re.ASCII | re.DOTALL)
_LONGEST = 255


def tag_of(version: str) -> str:
    """The tag of a version. `+` and `!`, which tags cannot have, become `_`, as in Helm. Raises RegistryError."""
    tag = re.sub(r"[^A-Za-z0-9._-]", "_", version)
    if not re.fullmatch(_TAG, tag, re.ASCII):
        raise RegistryError(f"the version {version!r} cannot be a tag", hint="name one: HOST/REPOSITORY:TAG")
    return tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An artifact in a registry. `tag` and `digest` may be empty; `plain_http`: the user wants http."""

    host: str
    repository: str
    tag: str = ""
    digest: str = ""
    plain_http: bool = False

    @classmethod
    def parse(cls, text: str, *, plain_http: bool = False) -> Reference:
        """Read `HOST/REPOSITORY[:TAG][@DIGEST]`, with or without `oci://`. Raises RegistryError."""
        found = _REFERENCE.fullmatch(text.removeprefix(SCHEME))
        if found is None or len(found["host"]) + len(found["repository"]) >= _LONGEST:
            raise RegistryError(
                f"{without_secrets('//' + text.removeprefix(SCHEME))[2:]} is not the address of an artifact",
                hint="write oci://HOST/REPOSITORY:TAG; repositories have lower-case letters; names and passwords are "
                "those of docker login or oras login",
            )
        return cls(
            host=found["host"].lower(),
            repository=found["repository"],
            tag=found["tag"] or "",
            digest=found["digest"] or "",
            plain_http=plain_http,
        )

    @classmethod
    def of_registry(cls, text: str, *, plain_http: bool = False) -> Reference:
        """Read `oci://HOST/REPOSITORY`, where a registry is. Raises RegistryError."""
        found = cls.parse(text, plain_http=plain_http)
        if found.tag or found.digest:
            raise RegistryError(
                f"{text} is the address of an artifact, not of a registry",
                hint="a registry has a repository without tag and digest: oci://HOST/REPOSITORY; `tfaot-pkg install "
                "oci://HOST/REPOSITORY:TAG` installs an artifact",
            )
        return found

    @property
    def url(self) -> str:
        return f"{SCHEME}{self}"

    def __str__(self) -> str:
        return (
            f"{self.host}/{self.repository}" + f":{self.tag}" * bool(self.tag) + f"@{self.digest}" * bool(self.digest)
        )

    def tagged(self, tag: str) -> Reference:
        return replace(self, tag=tag, digest="")

    @property
    def address(self) -> Address:
        """The registry's. Raises RegistryError."""
        name = self.host if self.host.startswith("[") else self.host.partition(":")[0]
        # As docker and oras do: nobody has certificates for loopback addresses.
        is_here = is_loopback(name.partition("]")[0].removeprefix("["))
        scheme = "http" if self.plain_http or is_here else "https"
        return Address.parse(f"{scheme}://{self.host}/", allow_http=self.plain_http)

    @property
    def site(self) -> Site:
        return replace(
            self.address.site,
            otherwise="`export --oci-layout` and `install oci:DIR` need no server",
            login=f"log in with `docker login {self.host}` or `oras login {self.host}`",
            accept=", ".join((*MANIFESTS, "*/*")),
        )

    @property
    def api(self) -> str:
        """The path of the repository's resources below the address."""
        return f"v2/{self.repository}"


MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
MANIFESTS = (MANIFEST, INDEX)
"""Registries give a manifest to those alone who say that they know its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutReference:
    """An artifact in an image layout. Without tag and digest: the only one that is tagged."""

    folder: Path
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> LayoutReference:
        """Read `oci:DIR[:TAG]` or `oci:DIR@DIGEST`. Raises RegistryError."""
        found = _LAYOUT.fullmatch(text.removeprefix(LAYOUT))
        if found is None:
            raise RegistryError(f"{text} is not the address of an image layout", hint="write oci:DIR:TAG")
        return cls(folder=Path(found["folder"]), tag=found["tag"] or "", digest=found["digest"] or "")

    def __str__(self) -> str:
        return f"{LAYOUT}{self.folder}" + f":{self.tag}" * bool(self.tag) + f"@{self.digest}" * bool(self.digest)


def is_artifact(text: str) -> bool:
    """Whether a user means an artifact, and not the package of a registry."""
    return text.startswith(LAYOUT)
