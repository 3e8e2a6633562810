// A first program: docs/clients.md shows it.
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "base/error.h"
#include "client/cpp/client.h"
#include "client/cpp/ops.h"

namespace kiln::client {

absl::Status First(const std::string& address) {
  KILN_ASSIGN_OR_RETURN(const auto client, Client::Connect(address));
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {4}, "x");
  graph.Output(x * 2 + 1);
  KILN_ASSIGN_OR_RETURN(const v1::Graph built, graph.Build());
  KILN_ASSIGN_OR_RETURN(const Program program, client->Compile(built));
  const Arguments arguments = Arguments().Set(0, HostTensor::Of<float>({4}, {1, 2, 3, 4}));
  KILN_ASSIGN_OR_RETURN(const RunResults run, program.Run(arguments, {.results = v1::RESULT_INLINE}));
  for (const float value : run.results[0].tensor.Values<float>()) std::cout << value << "\n";
  return absl::OkStatus();
}

}  // namespace kiln::client

int main(int count, char** words) {
  const absl::Status status = kiln::client::First(count > 1 ? words[1] : "localhost:7437");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
