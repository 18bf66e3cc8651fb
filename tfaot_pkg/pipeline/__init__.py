"""From a spec to a verified package, and what people do with one."""
