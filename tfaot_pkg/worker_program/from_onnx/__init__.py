"""The front-end of ONNX: `reading` and `answers` run beside ONNX and ONNX Runtime, `building` beside TensorFlow."""
