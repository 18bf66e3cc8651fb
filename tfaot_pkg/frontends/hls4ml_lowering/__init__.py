"""Networks of fixed-point numbers, as hls4ml's emulator computes them: a program of integers with the same bits."""
