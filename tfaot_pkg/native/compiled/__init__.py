"""From a frozen graph to object files, one per batch size and target."""
