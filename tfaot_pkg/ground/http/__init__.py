"""The HTTP client of sources and registries: deadlines, redirects, retries, ranges, limits, errors (decision 032)."""
