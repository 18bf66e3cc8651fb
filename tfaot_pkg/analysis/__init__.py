"""What a computation says about itself: rows, ranges, loops."""
