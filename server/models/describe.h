// What models are, as the open inference protocol says it.
#ifndef KILN_SERVER_MODELS_DESCRIBE_H_
#define KILN_SERVER_MODELS_DESCRIBE_H_

#include <vector>

#include "server/models/repository.h"
#include "server/models/served_model.h"
#include "server/models/version_policy.h"

namespace inference {
class ModelConfig;
class ModelMetadataResponse;
class ModelStatistics;
class RepositoryIndexResponse;
}  // namespace inference

namespace kiln::server {

// `versions` are all of the model's that are loaded.
void FillMetadata(const ServedModel& model, const std::vector<ServedModelPtr>& versions,
                  inference::ModelMetadataResponse& answer);
void FillConfig(const ServedModel& model, const VersionChoice& versions, inference::ModelConfig& config);
void FillStatistics(const ServedModel& model, const ModelCounts& counts, inference::ModelStatistics& statistics);
void AddToIndex(const ModelRepository::Row& row, inference::RepositoryIndexResponse& answer);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_DESCRIBE_H_
