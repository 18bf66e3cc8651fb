"""From a SavedModel to a frozen graph, its weights and its signature."""
