use std::sync::Arc;

use crate::{
    Call, Client, DType, InferRequest, Outputs, Result,
    call::CallOptions,
    error::bad_server,
    infer::{datatype_of, outputs_of},
    inference::{
        self, ModelMetadataRequest, ModelReadyRequest, RepositoryIndexRequest, grpc_inference_service,
        model_metadata_response,
    },
};

/// What the server says of a version of a model in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelIndex {
    /// The model's.
    pub name: String,
    /// Which one of it.
    pub version: String,
    /// `READY`, `LOADING` or `UNAVAILABLE`.
    pub state: String,
    /// Why it could not be loaded; of one that is ready: why its newest files could not.
    pub reason: String,
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorMetadata {
    /// By which requests give it, or answers have it.
    pub name: String,
    /// What its elements are.
    pub dtype: DType,
    /// A size that each call decides is -1.
    pub shape: Vec<i64>,
}

/// A model that the server has of a file (docs/serving.md). Whoever asks it knows names and arrays, and no graph.
/// Copies of it are the same.
///
/// ```no_run
/// # async fn example(client: kiln::Client) -> kiln::Result<()> {
/// use kiln::Array;
///
/// let model = client.model("affine").await?;
/// let x = Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [1, 4])?;
/// let outputs = model.infer([("x", x)]).await?;
/// println!("{:?}", outputs["y"].values::<f32>()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Model(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub client: Client,
    pub name: String,
    pub version: String,
    versions: Vec<String>,
    inputs: Vec<TensorMetadata>,
    outputs: Vec<TensorMetadata>,
}

impl Client {
    /// The models of the server's folder, which takes the right to administer.
    pub fn models(&self) -> Call<'static, Vec<ModelIndex>> {
        let connection = self.0.connection.clone();
        Call::new(move |options| async move {
            let request = RepositoryIndexRequest::default();
            let said = connection.unary(grpc_inference_service::REPOSITORY_INDEX, request, &options).await?;
            let rows = said.models.into_iter();
            let row = |row: inference::repository_index_response::ModelIndex| ModelIndex {
                name: row.name,
                version: row.version,
                state: row.state,
                reason: row.reason,
            };
            Ok(rows.map(row).collect())
        })
    }

    /// Asks what a model takes and gives, so that a name that is wrong is told here. Each call is the greatest
    /// version's that is ready then.
    pub fn model(&self, name: impl Into<String>) -> Call<'static, Model> {
        self.model_version(name, "")
    }

    /// The same, of a version.
    pub fn model_version(&self, name: impl Into<String>, version: impl Into<String>) -> Call<'static, Model> {
        let (client, name, version) = (self.clone(), name.into(), version.into());
        Call::new(move |options| async move {
            let request = ModelMetadataRequest { name: name.clone(), version: version.clone() };
            let metadata = grpc_inference_service::MODEL_METADATA;
            let said = client.0.connection.unary(metadata, request, &options).await?;
            let (inputs, outputs) = (tensors("input", said.inputs)?, tensors("output", said.outputs)?);
            Ok(Model(Arc::new(Inner { client, name, version, versions: said.versions, inputs, outputs })))
        })
    }
}

fn tensors(what: &str, said: Vec<model_metadata_response::TensorMetadata>) -> Result<Vec<TensorMetadata>> {
    let tensor = |row: model_metadata_response::TensorMetadata| match datatype_of(&row.datatype) {
        Some(dtype) => Ok(TensorMetadata { name: row.name, dtype, shape: row.shape }),
        None => {
            let message = format!("has {what} {:?} of {:?}, which this crate does not know", row.name, row.datatype);
            Err(bad_server(message))
        }
    };
    said.into_iter().map(tensor).collect()
}

impl Model {
    /// The model's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The version that was asked for; "" where that is the greatest.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Those that were ready.
    pub fn versions(&self) -> &[String] {
        &self.0.versions
    }

    /// What it takes, in the model's order.
    pub fn inputs(&self) -> &[TensorMetadata] {
        &self.0.inputs
    }

    /// What it gives, in the model's order.
    pub fn outputs(&self) -> &[TensorMetadata] {
        &self.0.outputs
    }

    /// Whether the server would run it now.
    pub fn ready(&self) -> Call<'static, bool> {
        let model = self.0.clone();
        Call::new(move |options| async move {
            let request = ModelReadyRequest { name: model.name.clone(), version: model.version.clone() };
            let said = model.client.0.connection.unary(grpc_inference_service::MODEL_READY, request, &options).await?;
            Ok(said.ready)
        })
    }

    /// Runs the model once: arrays by name go in, and arrays by name come out. They travel in one message, for whose
    /// size the server has a limit.
    pub fn infer(&self, request: impl Into<InferRequest>) -> Call<'static, Outputs> {
        let (model, request) = (self.clone(), request.into());
        Call::new(move |options: CallOptions| async move {
            let (wire, wanted) = request.into_wire(&model)?;
            let connection = &model.0.client.0.connection;
            let answer = connection.unary(grpc_inference_service::MODEL_INFER, wire, &options).await?;
            outputs_of(&wanted, answer)
        })
    }
}
