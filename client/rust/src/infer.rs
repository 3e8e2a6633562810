//! What a request to a model says, and what is read of its answer.

use std::collections::HashMap;

use crate::{
    Array, DType, Model, Result,
    dtype::{shape_of, wire_shape},
    error::{bad_argument, bad_server},
    inference::{
        InferParameter, ModelInferRequest, ModelInferResponse, infer_parameter::ParameterChoice, model_infer_request,
    },
};

/// What a model has given, by name.
pub type Outputs = HashMap<String, Array>;

/// The dtypes of models, by the names that the open inference protocol has for them.
const DATATYPES: [(&str, DType); 13] = [
    ("BOOL", DType::Bool),
    ("INT8", DType::Int8),
    ("INT16", DType::Int16),
    ("INT32", DType::Int32),
    ("INT64", DType::Int64),
    ("UINT8", DType::Uint8),
    ("UINT16", DType::Uint16),
    ("UINT32", DType::Uint32),
    ("UINT64", DType::Uint64),
    ("FP16", DType::Float16),
    ("FP32", DType::Float32),
    ("FP64", DType::Float64),
    ("BF16", DType::BFloat16),
];

/// None for what this crate does not know.
pub(crate) fn datatype_of(name: &str) -> Option<DType> {
    DATATYPES.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// The parameter that says of which sequence a request is.
pub(crate) const SEQUENCE_ID: &str = "sequence_id";

/// A request to a model: arrays by name, and what else there may be to say. Names with arrays are one by themselves.
///
/// ```
/// use kiln::{Array, InferRequest};
///
/// let request = InferRequest::new([("x", Array::from([1.0f32, 2.0]))]).outputs(["y"]).sequence(7, true, false);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct InferRequest {
    inputs: Vec<(String, Array)>,
    outputs: Vec<String>,
    sequence: Option<(u64, bool, bool)>,
    id: String,
}

impl InferRequest {
    /// Arrays, each with the name of an input.
    pub fn new<N: Into<String>, A: Into<Array>>(inputs: impl IntoIterator<Item = (N, A)>) -> InferRequest {
        let inputs = inputs.into_iter().map(|(name, array)| (name.into(), array.into())).collect();
        InferRequest { inputs, ..InferRequest::default() }
    }

    /// Asks for these outputs alone.
    pub fn outputs<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.outputs = names.into_iter().map(Into::into).collect();
        self
    }

    /// For a model that goes on from one request of a sequence to the next: which one, from 1 on, and whether this is
    /// its first request or its last. Such a request is not made again by itself, since the sequence may have moved on.
    pub fn sequence(mut self, id: u64, start: bool, end: bool) -> Self {
        self.sequence = Some((id, start, end));
        self
    }

    /// Names the request, for who looks at what travels.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// As it travels, and the names of the outputs that it asks for. The arrays' memory is shared.
    pub(crate) fn into_wire(self, model: &Model) -> Result<(ModelInferRequest, Vec<String>)> {
        let mut wire = ModelInferRequest {
            model_name: model.name().into(),
            model_version: model.version().into(),
            id: self.id,
            ..ModelInferRequest::default()
        };
        for (name, array) in self.inputs {
            let Some(row) = DATATYPES.iter().find(|row| row.1 == array.dtype()) else {
                let message = format!("input {name:?}: models take none of {}", array.dtype());
                return Err(bad_argument(message).of_field(&name));
            };
            wire.raw_input_contents.push(array.data().clone());
            let (datatype, shape) = (row.0.into(), wire_shape(array.shape()));
            wire.inputs.push(model_infer_request::InferInputTensor { name, datatype, shape, ..Default::default() });
        }
        for name in &self.outputs {
            let output = model_infer_request::InferRequestedOutputTensor { name: name.clone(), ..Default::default() };
            wire.outputs.push(output);
        }
        if let Some((id, start, end)) = self.sequence {
            for (name, choice) in [
                (SEQUENCE_ID, ParameterChoice::Uint64Param(id)),
                ("sequence_start", ParameterChoice::BoolParam(start)),
                ("sequence_end", ParameterChoice::BoolParam(end)),
            ] {
                wire.parameters.insert(name.into(), InferParameter { parameter_choice: Some(choice) });
            }
        }
        Ok((wire, self.outputs))
    }
}

impl<N: Into<String>, A: Into<Array>, const COUNT: usize> From<[(N, A); COUNT]> for InferRequest {
    fn from(inputs: [(N, A); COUNT]) -> InferRequest {
        InferRequest::new(inputs)
    }
}

impl<N: Into<String>, A: Into<Array>> From<Vec<(N, A)>> for InferRequest {
    fn from(inputs: Vec<(N, A)>) -> InferRequest {
        InferRequest::new(inputs)
    }
}

impl<N: Into<String>, A: Into<Array>> From<HashMap<N, A>> for InferRequest {
    fn from(inputs: HashMap<N, A>) -> InferRequest {
        InferRequest::new(inputs)
    }
}

/// An answer's arrays, all that were asked for among them.
pub(crate) fn outputs_of(wanted: &[String], answer: ModelInferResponse) -> Result<Outputs> {
    let (rows, contents) = (answer.outputs, answer.raw_output_contents);
    if rows.len() != contents.len() {
        return Err(bad_server(format!("gave {} outputs, and the contents of {}", rows.len(), contents.len())));
    }
    let mut made = Outputs::new();
    for (row, data) in rows.into_iter().zip(contents) {
        let said = format!("gave output {:?} of {:?} {:?} as {} bytes", row.name, row.datatype, row.shape, data.len());
        let Some((dtype, shape)) = datatype_of(&row.datatype).zip(shape_of(&row.shape)) else {
            return Err(bad_server(format!("{said}, which this crate does not know")));
        };
        let array = Array::new(dtype, shape, data).map_err(|_| bad_server(said))?;
        if let Some(before) = made.insert(row.name, array) {
            return Err(bad_server(format!("gave an output of {} twice", before.dtype())));
        }
    }
    match wanted.iter().find(|name| !made.contains_key(*name)) {
        Some(name) => Err(bad_server(format!("did not give output {name:?}"))),
        None => Ok(made),
    }
}
