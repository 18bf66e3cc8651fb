"""Packages as artifacts in OCI registries and image layouts (decision 112).

https://github.com/opencontainers/image-spec (1.1), https://github.com/opencontainers/distribution-spec (1.1).
"""
