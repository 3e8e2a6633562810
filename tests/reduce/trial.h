// What becomes of a graph: the properties that kiln_reduce knows by itself.
#ifndef KILN_TESTS_REDUCE_TRIAL_H_
#define KILN_TESTS_REDUCE_TRIAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"
#include "kiln/v1/graph.pb.h"
#include "tests/reduce/node_type.h"
#include "tests/reduce/reduce.h"
#include "tests/support/compare.h"

namespace kiln::testing {

enum class Question {
  kFails,       // does the compiler refuse it?
  kCrashes,     // does compiling, running or interpreting it end the process, or write outside its buffers?
  kHangs,       // is it not done in time?
  kDiffers,     // does the CPU give other results than the interpreter?
  kBreaksLaws,  // does a pass change what it computes?
};

struct Trial {
  Question question = Question::kDiffers;
  // kFails: an error code's name, or a part of the message; empty: the code of the
  // whole graph.
  std::string wanted;
  // Of a slot with another dtype than here, or that is not here: random small
  // numbers. Of another size: repeated, or cut off.
  compiler::HostTensors arguments;
  uint64_t seed = 0;
  Tolerance tolerance;
  double seconds = 10;  // for one candidate
};

// In a process of its own. Empty if the answer is no; otherwise what it was, without
// details that change from candidate to candidate ("values", "signal 11", ...).
std::string Answer(const v1::Graph& graph, const Trial& trial);

// The same answer as the whole graph's, or the one that `trial.wanted` says.
Property PropertyOf(const v1::Graph& whole, const Trial& trial);

// Runs `command` by the shell, each {} in it (or its end, if there is none) being the
// candidate's file. Exit status 0: the property holds. `file` is overwritten.
Property PropertyOfCommand(const std::string& command, const std::string& file, double seconds);

// Only asks `property` about candidates that the importer lets in, if it let the whole
// graph in.
Property AmongLegal(const v1::Graph& whole, Property property, double seconds);

// DeriveTypes in a process of its own; nothing is known if that crashes.
std::vector<NodeType> DeriveTypesApart(const v1::Graph& graph, double seconds);

}  // namespace kiln::testing

#endif  // KILN_TESTS_REDUCE_TRIAL_H_
