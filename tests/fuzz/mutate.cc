#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <limits>

namespace kiln::testing {
namespace {

// Numbers that hurt.
int64_t BadNumber(Random& random) {
  return random.Pick<int64_t>({-1, 0, 1, 2, 63, 64, 255, 1 << 16, std::numeric_limits<int32_t>::max(), int64_t{1} << 32,
                               int64_t{1} << 40, int64_t{1} << 62, std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min(), random.In(-9, 9),
                               static_cast<int64_t>(random.Bits())});
}

v1::Op AnyOp(Random& random) {
  if (random.OneIn(20)) return static_cast<v1::Op>(BadNumber(random));
  return static_cast<v1::Op>(random.Below(v1::Op_MAX + 2));
}

v1::DType AnyDType(Random& random) {
  if (random.OneIn(20)) return static_cast<v1::DType>(BadNumber(random));
  return static_cast<v1::DType>(random.Below(v1::DType_MAX + 2));
}

void CopyArg(const v1::UOp& from, v1::UOp& to) {
  v1::UOp copy = from;
  copy.set_op(to.op());
  copy.mutable_src()->CopyFrom(to.src());
  copy.set_dtype(to.dtype());
  to.Swap(&copy);
}

void MutateArg(v1::UOp& node, Random& random) {
  switch (node.arg_case()) {
    case v1::UOp::kConstant: {
      v1::ConstArg& constant = *node.mutable_constant();
      switch (random.Below(6)) {
        case 0: constant.set_i(BadNumber(random)); break;
        case 1: constant.set_u(static_cast<uint64_t>(BadNumber(random))); break;
        case 2: constant.set_bits(random.Bits()); break;
        case 3:
          constant.set_f(random.Pick(
              {0.5, -1e300, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}));
          break;
        case 4: constant.set_decimal(random.Pick({"", "-", "007", "99999999999999999999999999", "-1", "x"})); break;
        default: constant.set_dtype(AnyDType(random)); break;
      }
      break;
    }
    case v1::UOp::kBuffer: {
      v1::BufferArg& buffer = *node.mutable_buffer();
      switch (random.Below(4)) {
        case 0: buffer.set_slot(static_cast<uint32_t>(BadNumber(random))); break;
        case 1: buffer.set_dtype(AnyDType(random)); break;
        case 2: buffer.add_device(random.Pick({"CPU:0", "", "GPU:7"})); break;
        default: buffer.set_addrspace(static_cast<v1::AddrSpace>(random.Below(6))); break;
      }
      break;
    }
    case v1::UOp::kAxes: node.mutable_axes()->add_axis(BadNumber(random)); break;
    case v1::UOp::kFlip: node.mutable_flip()->add_axis(true); break;
    case v1::UOp::kReduce:
      if (random.OneIn(2)) {
        node.mutable_reduce()->set_op(AnyOp(random));
      } else {
        node.mutable_reduce()->add_axis(BadNumber(random));
      }
      break;
    case v1::UOp::kPad: node.mutable_pad()->mutable_fill()->set_dtype(AnyDType(random)); break;
    case v1::UOp::kCastTo: node.set_cast_to(AnyDType(random)); break;
    default: node.set_index(BadNumber(random)); break;
  }
}

}  // namespace

void MutateBytes(std::string& bytes, Random& random) {
  const int64_t edits = random.In(1, 6);
  for (int64_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = random.Below(bytes.size());
    switch (random.Below(6)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8))); break;
      case 1: bytes[at] = static_cast<char>(random.Bits()); break;
      case 2: bytes.erase(at, 1 + random.Below(4)); break;
      case 3: bytes.insert(at, 1 + random.Below(3), static_cast<char>(random.Bits())); break;
      case 4: bytes.insert(at, bytes.substr(random.Below(bytes.size()), random.Below(40))); break;
      default:
        if (random.OneIn(4)) bytes.resize(at);
        break;
    }
  }
}

void MutateGraph(v1::Graph& graph, Random& random) {
  if (graph.nodes_size() == 0) return;
  const int count = graph.nodes_size();
  v1::UOp& node = *graph.mutable_nodes(static_cast<int>(random.Below(count)));
  const v1::UOp& other = graph.nodes(static_cast<int>(random.Below(count)));
  switch (random.Below(12)) {
    case 0: node.set_op(AnyOp(random)); break;
    case 1:
    case 2:
      if (node.src_size() > 0)
        node.set_src(static_cast<int>(random.Below(node.src_size())), static_cast<uint32_t>(random.Below(count)));
      break;
    case 3:
      node.add_src(
          static_cast<uint32_t>(random.OneIn(3) ? BadNumber(random) : static_cast<int64_t>(random.Below(count))));
      break;
    case 4:
      if (node.src_size() > 0) node.mutable_src()->RemoveLast();
      break;
    case 5: CopyArg(v1::UOp(other), node); break;
    case 6:
    case 7:
    case 8: MutateArg(node, random); break;
    case 9: node.set_dtype(AnyDType(random)); break;
    case 10:
      graph.mutable_nodes()->SwapElements(static_cast<int>(random.Below(count)), static_cast<int>(random.Below(count)));
      break;
    default:
      if (random.OneIn(2)) {
        *graph.add_nodes() = v1::UOp(other);
      } else {
        graph.set_dialect(static_cast<v1::Dialect>(random.Below(4)));
      }
  }
}

}  // namespace kiln::testing
