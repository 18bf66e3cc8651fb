"""The spec: a YAML file is read into a `ModelSpec` (types.py), or all its faults are reported with their lines."""
