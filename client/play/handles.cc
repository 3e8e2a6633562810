#include "client/replay/handles.h"

#include <algorithm>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::replay {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool IsHandle(const FieldDescriptor& field) {
  if (field.type() != FieldDescriptor::TYPE_FIXED64) return false;
  const std::string& name = field.name();
  return name == "handle" || name == "handles" || name == "result_handle" || name == "view_of";
}

// Graphs are large, and have no handles.
bool IsGraph(const Message& message) { return message.GetDescriptor() == v1::Graph::descriptor(); }

std::vector<const FieldDescriptor*> FieldsOf(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

int CountOf(const Message& message, const FieldDescriptor* field) {
  return field->is_repeated() ? message.GetReflection()->FieldSize(message, field)
                              : static_cast<int>(message.GetReflection()->HasField(message, field));
}

const Message& PartOf(const Message& message, const FieldDescriptor* field, int i) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  return field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                              : reflection.GetMessage(message, field);
}

uint64_t HandleOf(const Message& message, const FieldDescriptor* field, int i) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  return field->is_repeated() ? reflection.GetRepeatedUInt64(message, field, i) : reflection.GetUInt64(message, field);
}

}  // namespace

void Handles::Translate(Message& message) const {
  if (IsGraph(message)) return;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (const FieldDescriptor* field : FieldsOf(message)) {
    for (int i = 0; i < CountOf(message, field); ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Translate(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                       : *reflection.MutableMessage(&message, field));
      } else if (IsHandle(*field)) {
        const auto found = replayed_.find(HandleOf(message, field, i));
        if (found == replayed_.end()) continue;
        field->is_repeated() ? reflection.SetRepeatedUInt64(&message, field, i, found->second)
                             : reflection.SetUInt64(&message, field, found->second);
      }
    }
  }
}

void Handles::Learn(const Message& recorded, const Message& replayed) {
  for (const FieldDescriptor* field : FieldsOf(recorded)) {
    const int count = std::min(CountOf(recorded, field), CountOf(replayed, field));
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Learn(PartOf(recorded, field, i), PartOf(replayed, field, i));
      } else if (IsHandle(*field)) {
        const uint64_t from = HandleOf(recorded, field, i), to = HandleOf(replayed, field, i);
        if (from != 0 && from != to) replayed_[from] = to;
      }
    }
  }
}

}  // namespace kiln::replay
