#include "client/play/handles.h"

#include <algorithm>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::play {
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
        const auto found = played_.find(HandleOf(message, field, i));
        if (found == played_.end()) continue;
        field->is_repeated() ? reflection.SetRepeatedUInt64(&message, field, i, found->second)
                             : reflection.SetUInt64(&message, field, found->second);
      }
    }
  }
}

void Handles::Learn(const Message& captured, const Message& played) {
  for (const FieldDescriptor* field : FieldsOf(captured)) {
    const int count = std::min(CountOf(captured, field), CountOf(played, field));
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Learn(PartOf(captured, field, i), PartOf(played, field, i));
      } else if (IsHandle(*field)) {
        const uint64_t from = HandleOf(captured, field, i), to = HandleOf(played, field, i);
        if (from != 0 && from != to) played_[from] = to;
      }
    }
  }
}

}  // namespace kiln::play
