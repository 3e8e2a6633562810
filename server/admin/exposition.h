// All metrics of a server as Prometheus reads them. Tested by tests/python/server/metrics_test.py.
#ifndef KILN_SERVER_ADMIN_EXPOSITION_H_
#define KILN_SERVER_ADMIN_EXPOSITION_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::server {

class Engine;
class ModelRepository;

// Safe from any thread. `engine` and `models`, which may be null, outlive it.
class Exposition final : public prometheus::Collectable {
 public:
  Exposition(Engine* engine, const ModelRepository* models, std::function<bool()> ready);

  // Adds up what was counted, and looks up the rest.
  std::vector<prometheus::MetricFamily> Collect() const override;

  // The same as text, format 0.0.4.
  std::string Text() const;

 private:
  Engine* const engine_;
  const ModelRepository* const models_;
  const std::function<bool()> ready_;
  const std::string build_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_EXPOSITION_H_
