"""One adaptor for each framework: it writes the file that the pipeline reads. The framework is that of the caller."""
