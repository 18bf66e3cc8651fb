// StableHLO: the distance of two points in space, for any number of pairs.
func.func @main(%first: tensor<?x3xf32>, %second: tensor<?x3xf32>) -> tensor<?xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %difference = stablehlo.subtract %first, %second : tensor<?x3xf32>
  %squares = stablehlo.multiply %difference, %difference : tensor<?x3xf32>
  %sum = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<?x3xf32>, tensor<f32>) -> tensor<?xf32>
  %distance = stablehlo.sqrt %sum : tensor<?xf32>
  return %distance : tensor<?xf32>
}
