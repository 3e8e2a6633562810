// The calls that a capture may hold.
#ifndef KILN_CLIENT_PLAY_METHODS_H_
#define KILN_CLIENT_PLAY_METHODS_H_

#include <string>

#include "google/protobuf/message.h"

namespace kiln::play {

struct Method {
  const char* name;  // "KernelService.Execute"
  const google::protobuf::Message* request;
  const google::protobuf::Message* response;

  std::string path() const;  // "/kiln.v1.KernelService/Execute"
};

// Null if there is none of this name.
const Method* FindMethod(const std::string& name);

}  // namespace kiln::play

#endif  // KILN_CLIENT_PLAY_METHODS_H_
