"""From a spec's `source` to the model's files in a local folder: fetched, checked, safely unpacked."""
