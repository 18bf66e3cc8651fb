"""Where a package came from and what is in it: SLSA provenance, the CycloneDX SBOM, and building again from them."""
