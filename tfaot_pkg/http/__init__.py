"""The one HTTP client, of sources and of registries alike: deadlines, redirects, retries, ranges, limits, errors."""
