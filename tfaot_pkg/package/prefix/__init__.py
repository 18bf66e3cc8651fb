"""An installed prefix: what is in it, putting packages there, checking and removing them."""
