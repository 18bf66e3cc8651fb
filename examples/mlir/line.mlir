// The TensorFlow dialect: a line for two variables, and where it is positive.
func.func @main(%x: tensor<?x2xf32>) -> (tensor<?x1xf32>, tensor<?x1xi1>)
    attributes {tf.entry_function = {inputs = "x", outputs = "height,positive"}} {
  %slopes = "tf.Const"() {value = dense<[[2.0], [-0.5]]> : tensor<2x1xf32>} : () -> tensor<2x1xf32>
  %start = "tf.Const"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %zero = "tf.Const"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "tf.MatMul"(%x, %slopes) : (tensor<?x2xf32>, tensor<2x1xf32>) -> tensor<?x1xf32>
  %1 = "tf.AddV2"(%0, %start) : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xf32>
  %2 = "tf.Greater"(%1, %zero) : (tensor<?x1xf32>, tensor<f32>) -> tensor<?x1xi1>
  return %1, %2 : tensor<?x1xf32>, tensor<?x1xi1>
}
