// One random sequence of what the C++ client can do, held against a model (sequence_model.h):
// calls on any device, and a stream of one device beside them. Compile, execute, in place,
// failing, stopped, freed, made anew; on one device each, and on several.
//
// A stream and calls have no order between them, so the stream is fenced before a call. What a
// call makes everybody may use; what a stream makes only the stream knows.
#ifndef KILN_TESTS_CLIENT_SEQUENCES_H_
#define KILN_TESTS_CLIENT_SEQUENCES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/sharding.h"
#include "tests/client/sequence_model.h"
#include "tests/client/sequence_programs.h"

namespace kiln::client {

// A server's clients, one a device, and what they keep from sequence to sequence.
class Site {
 public:
  Site(const std::string& address, int devices);

  // Compiled for a device when it is first asked for.
  const Program& Compiled(const std::string& name, const v1::Graph& graph, size_t device);
  size_t IndexOf(const std::string& device) const;

  Devices devices;
  std::vector<std::unique_ptr<Client>> clients;
  // With a short timeout, of several lengths: [device][length].
  std::vector<std::vector<std::shared_ptr<Connection>>> hasty;

 private:
  std::map<std::pair<std::string, size_t>, Program> programs_;
};

class Sequence {
 public:
  Sequence(Site& site, uint32_t seed);

  // "", or what went wrong, with the calls up to there.
  std::string Run(int steps);

  int failed() const { return model_.failed; }
  // How often a run was stopped in the middle, so that poison is left.
  int stopped() const { return stopped_; }
  int calls() const { return calls_; }

 private:
  using Step = void (Sequence::*)();
  struct Weighted {
    const char* name;
    Step step;
    uint32_t weight;
    bool on_several;  // wants more than one device
  };
  static const std::vector<Weighted>& Steps();

  // -- Choices
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool Chance(uint32_t percent) { return Below(100) < percent; }
  int32_t Number() { return static_cast<int32_t>(Below(2000)) - 1000; }
  Values Numbers(size_t count);
  // A slot that the stream, or a call, can use; of kSize elements unless `any`. A new one where there is none.
  SlotPtr Pick(const std::string& device, bool stream, bool any = false);
  // The stream's device, or any.
  size_t AnyDevice(bool stream) { return stream ? home_ : Below(static_cast<uint32_t>(site_.devices.size())); }
  std::vector<size_t> SeveralDevices();
  SlotPtr Make(const std::string& device, bool stream, size_t size);
  SlotPtr Keep(SlotPtr slot);
  SlotPtr KeepOwned(DeviceBuffer buffer, Values values, const std::string& device);
  // The stream has done all that was asked of it: a call may come.
  void Quiesce();
  void Expect(const std::string& wrong);
  Client& client(const SlotPtr& slot) { return *site_.clients[site_.IndexOf(slot->memory->device)]; }

  // -- Memory (sequences.cc)
  void Make();
  void Free();
  void Write();
  void Fill();
  void Copy();
  void View();
  void Read();
  void Fence();
  void UseFreed();
  void Collective();

  // -- Programs (sequence_runs.cc)
  void Compile();
  void CompileBroken();
  void Execute();
  void Fail();
  void RunPartial();
  void RunSplit();
  void Stop();
  // A program's result as a command gives it, and as a call does.
  void AddResults(const std::vector<v1::BufferRef>& refs, const std::vector<Values>& values, const MaybeCause& cause,
                  bool made, const std::string& device);
  void AddResults(RunResults run, const std::vector<Values>& values, const std::string& device);

  void Read(const SlotPtr& slot);
  void Drop(const std::shared_ptr<Memory>& memory);

  Site& site_;
  std::mt19937 random_;
  const size_t home_;
  std::unique_ptr<Stream> stream_;
  Expectations model_;
  Slots slots_;
  std::vector<v1::BufferRef> freed_;  // names of the stream's
  Slots short_;                       // one a device, of one element: too short for anything
  std::vector<std::pair<std::string, Kind>> kinds_;
  std::string said_, wrong_;
  bool busy_ = false;
  int calls_ = 0, stopped_ = 0;
};

}  // namespace kiln::client

#endif  // KILN_TESTS_CLIENT_SEQUENCES_H_
