"""From graphs of ONNX files to programs, operator by operator."""
