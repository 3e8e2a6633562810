// The state of one play (play.h): calls under way, sessions, what is known of handles.
#ifndef KILN_CLIENT_PLAY_PLAYER_H_
#define KILN_CLIENT_PLAY_PLAYER_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/transport/raw_call.h"
#include "client/play/handles.h"
#include "client/play/methods.h"
#include "client/play/play.h"
#include "kiln/v1/capture.pb.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::play {

class Player {
 public:
  Player(const std::shared_ptr<grpc::Channel>& channel, client::BearerSource* bearer)
      : stub_(channel), bearer_(bearer) {}
  ~Player();

  // DATA_LOSS for what no server writes; UNAVAILABLE if the server has gone.
  absl::Status Play(const v1::CaptureEntry& entry);
  const Report& report() const { return report_; }

 private:
  struct Session {
    std::string token;
    uint64_t last_command = 0;  // of its streams
  };
  struct Call {
    uint64_t number = 0;
    const Method* method = nullptr;
    uint64_t session = 0;
    std::string program;  // that it runs
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    uint64_t compared_bytes = 0;
    // Until it has ended on this side; its answers, until they are compared.
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<client::RawCall> raw;
    std::deque<std::string> answers;
    grpc::Status status;
    // Of a stream: its commands' answers, by command.
    std::map<uint64_t, std::deque<v1::SubmitResponse>> by_command;
    std::map<uint64_t, Handles::Content> reads;
  };

  // -- Any call (player.cc)
  absl::Status Begin(const v1::CaptureBegin& begin);
  absl::Status Received(Call& call, const std::string& message);
  absl::Status Sent(Call& call, const std::string& message);
  absl::Status End(Call& call, const v1::CaptureEnd& end);
  // Of a captured session, where the capture is played; empty for none.
  std::string TokenOf(uint64_t session) const;
  // Begins it where the capture is played.
  void Open(Call& call);
  // Sends nothing more, and takes all answers.
  void Complete(Call& call);
  // A request as it is sent here; notes what it is about.
  absl::Status Prepare(Call& call, google::protobuf::Message& request);
  void CompareAnswer(Call& call, const google::protobuf::Message& captured, const google::protobuf::Message& played);
  bool IsStream(const Call& call) const;
  bool IsUpload(const Call& call) const;

  // -- Streams of commands (player_stream.cc)
  absl::Status CommandReceived(Call& call, const std::string& message);
  absl::Status CommandSent(Call& call, const std::string& message);
  void CompareCommand(Call& call, const v1::SubmitResponse& captured, const v1::SubmitResponse& played);
  void NoteCommand(Call& call, const v1::SubmitRequest& request);
  Session& SessionOf(const Call& call);

  // -- What is known of programs and memory, and what is reported (player_notes.cc)
  static std::string ProgramOf(const v1::ExecuteRequest& request);
  void NoteCompiled(const v1::CompileResponse& compiled);
  // A program's results, under these captured handles, and what it updates.
  void NoteExecuted(const v1::ExecuteRequest& request, const std::string& program,
                    const std::vector<uint64_t>& results);
  void NoteAnswer(Call& call, const google::protobuf::Message& captured);
  void NoteTime(const std::string& program, const v1::Timing& timing);
  void Differ(const Call& call, uint64_t command, const std::string& program, Mismatch mismatch);
  // Whether two failures, as google.rpc.Status, are the same; reports it if not.
  void CompareFailures(const Call& call, uint64_t command, const std::string& captured, const std::string& played);

  grpc::GenericStub stub_;
  client::BearerSource* const bearer_;
  std::map<uint64_t, Call> calls_;
  std::map<uint64_t, Session> sessions_;
  std::map<std::string, v1::Signature> signatures_;
  Handles handles_;
  Report report_;
};

}  // namespace kiln::play

#endif  // KILN_CLIENT_PLAY_PLAYER_H_
