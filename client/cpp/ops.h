// Every function that makes tensors from tensors.
#ifndef KILN_CLIENT_CPP_OPS_H_
#define KILN_CLIENT_CPP_OPS_H_

#include "client/cpp/conv.h"         // IWYU pragma: export
#include "client/cpp/elementwise.h"  // IWYU pragma: export
#include "client/cpp/graph.h"        // IWYU pragma: export
#include "client/cpp/markers.h"      // IWYU pragma: export
#include "client/cpp/movement.h"     // IWYU pragma: export
#include "client/cpp/nn.h"           // IWYU pragma: export
#include "client/cpp/reduce.h"       // IWYU pragma: export
#include "client/cpp/sharding.h"     // IWYU pragma: export
#include "client/cpp/window.h"       // IWYU pragma: export

#endif  // KILN_CLIENT_CPP_OPS_H_
