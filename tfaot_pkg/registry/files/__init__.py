"""Static trees of files, as registries are: where each file lies (`layout`), and how it is read (`files`)."""
