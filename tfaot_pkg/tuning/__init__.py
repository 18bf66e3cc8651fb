"""What a run of each batch size costs: measured, read from the tuning file, or estimated."""
