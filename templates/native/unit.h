// The code that computes a model, as the library sees it: compiled units (batch size x target), or a program for all sizes.
//
// tfcompile's generated header describes a computation by tables of buffers. The files made from `unit.cc.j2` read such
// tables through a stand-in of TensorFlow's base class (classic/ or thunks/) and hand them over in this form.
#ifndef TFAOT_NATIVE_UNIT_H_
#define TFAOT_NATIVE_UNIT_H_

#include <cstddef>
#include <cstdint>

namespace tfaot_kernels {
struct Team;
}

namespace tfaot_native {

enum class BufferKind : std::uint8_t {
  kUnused,    // lives on the stack or inside the code: no memory of ours
  kScratch,   // allocated by the instance
  kArgument,  // bound to an input or to weights at each run
  kConstant   // address known when the library is loaded
};

struct Buffer {
  std::uint64_t size;  // bytes
  BufferKind kind;
  const void* constant;  // kConstant only
};

struct Unit {
  std::int64_t batch_size;
  std::size_t num_buffers;
  const Buffer* buffers;
  const std::int32_t* argument_buffers;  // argument index -> buffer index
  const std::int32_t* result_buffers;    // result index -> buffer index
  // Runs the computation over a table of `num_buffers` addresses; false on failure.
  bool (*run)(void** table);
};

// Computes `rows` rows, any number of them, in `scratch` memory of one size. Allocates nothing, and cannot fail. Inputs and
// outputs need the alignment of their elements, scratch memory and weights that of the widest vectors. Threads of `team`
// compute parts of large layers, unless it is null.
using Program = void(std::size_t rows, const void* const* inputs, void* const* outputs, const unsigned char* weights,
                     unsigned char* scratch, const tfaot_kernels::Team* team);

// The same for a program with symbols (tfaot_info), whose sizes each call brings.
using SizedProgram = void(std::size_t rows, const std::size_t* sizes, const void* const* inputs, void* const* outputs,
                          const unsigned char* weights, unsigned char* scratch, const tfaot_kernels::Team* team);

// The code of one target: a program, or else units, ascending in batch size.
struct Target {
  const char* name;
  std::size_t num_units;
  const Unit* units;
  Program* program;          // null if there are units
  std::size_t scratch_size;  // bytes, of the program
  bool is_guarded;           // the program calls XLA's code, which may fail
  SizedProgram* sized_program = nullptr;  // instead of `program`, if the model has symbols
  bool divides_layers = false;            // whether the program can use a team
  std::size_t member_scratch_size = 0;    // bytes for each thread of the team
  // Says whether the process may use tiles of the CPU; 0 if the CPU has none. Null if the code uses none.
  unsigned (*permit_tiles)(bool is_granted) = nullptr;

  bool is_program() const { return program != nullptr || sized_program != nullptr; }
};

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_UNIT_H_
