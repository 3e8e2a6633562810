use std::fmt;

use bytes::Bytes;

use crate::{
    Buffer, Call, Client, Program, Result,
    call::CallOptions,
    error::bad_argument,
    v1::{self, ErrorCode, kernel_service, recorded_argument::Value},
};

/// One call of a recording: a program, and for each of its parameters, in ascending order of slot, where it lies.
#[derive(Clone, Debug)]
pub struct Step {
    /// What runs.
    pub program: Program,
    /// Where its parameters lie.
    pub memory: Vec<Place>,
}

/// A part of one of a replay's buffers, from a byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of them.
    pub buffer: u32,
    /// From which byte on.
    pub offset: u64,
}

impl From<u32> for Place {
    fn from(buffer: u32) -> Place {
        Place { buffer, offset: 0 }
    }
}

impl Step {
    /// A call of a program on whole buffers of a replay's, by their numbers.
    pub fn new<P: Into<Place>>(program: &Program, memory: impl IntoIterator<Item = P>) -> Step {
        Step { program: program.clone(), memory: memory.into_iter().map(Into::into).collect() }
    }
}

/// Calls in a row that the server keeps, and runs again in one round trip.
pub struct Recording {
    client: Client,
    request: v1::RecordSequenceRequest,
    programs: Vec<Program>,
    hash: Bytes,
}

impl Client {
    /// Records calls of programs that store to their parameters; results that would be new memory have no place here.
    pub fn record(&self, steps: impl IntoIterator<Item = Step>) -> Call<'static, Recording> {
        let (client, steps) = (self.clone(), steps.into_iter().collect::<Vec<_>>());
        Call::new(move |options| async move {
            let inner = &client.0;
            let named = Some(&inner.device).filter(|device| !device.is_empty()).or(inner.devices.first());
            let mut request =
                v1::RecordSequenceRequest { device: named.cloned().unwrap_or_default(), ..Default::default() };
            let mut programs: Vec<Program> = Vec::new();
            for (number, Step { program, memory }) in steps.into_iter().enumerate() {
                let takes = &program.0.takes;
                if memory.len() != takes.len() {
                    let (given, wanted) = (memory.len(), takes.len());
                    let message = format!("step {number} gives {given} memories to a program of {wanted} parameters");
                    return Err(bad_argument(message));
                }
                let arguments = takes.iter().zip(memory).map(|(row, Place { buffer, offset })| {
                    let value = Some(Value::Memory(v1::RecordedMemory { buffer, offset }));
                    v1::RecordedArgument { slot: row.slot, value }
                });
                let arguments = arguments.collect();
                let same = |other: &Program| std::sync::Arc::ptr_eq(&other.0, &program.0);
                let at = programs.iter().position(same).unwrap_or(programs.len());
                if at == programs.len() {
                    let (graph_hash, options) = (program.0.hash.clone(), program.0.options.clone());
                    request.programs.push(v1::RecordedProgram { graph_hash, options });
                    programs.push(program);
                }
                request.steps.push(v1::RecordedStep { program: at as u32, arguments });
            }
            let said = inner.connection.unary(kernel_service::RECORD_SEQUENCE, request.clone(), &options).await?;
            Ok(Recording { client, request, programs, hash: said.recording })
        })
    }
}

impl Recording {
    /// Runs the calls on these buffers. What the server has forgotten is recorded again.
    pub fn replay<'a>(&'a self, buffers: impl IntoIterator<Item = &'a Buffer>) -> Call<'a, ()> {
        let buffers: Vec<Buffer> = buffers.into_iter().cloned().collect();
        Call::new(move |options| async move {
            let connection = &self.client.0.connection;
            let request = v1::ReplaySequenceRequest {
                recording: self.hash.clone(),
                buffers: buffers.iter().map(|buffer| buffer.reference(0)).collect(),
                ..v1::ReplaySequenceRequest::default()
            };
            let played = connection.unary(kernel_service::REPLAY_SEQUENCE, request.clone(), &options).await;
            if !is_forgotten(&played) {
                return played.map(drop);
            }
            self.again(&options).await?;
            connection.unary(kernel_service::REPLAY_SEQUENCE, request, &options).await.map(drop)
        })
    }

    /// For a server that has forgotten the recording, and perhaps its programs.
    async fn again(&self, options: &CallOptions) -> Result<()> {
        let connection = &self.client.0.connection;
        let recorded = connection.unary(kernel_service::RECORD_SEQUENCE, self.request.clone(), options).await;
        if !is_forgotten(&recorded) {
            return recorded.map(drop);
        }
        for program in &self.programs {
            let (graph, with) = (Some(program.graph().clone()), program.0.options.clone());
            let request = v1::CompileRequest { graph, device: self.request.device.clone(), options: with };
            connection.unary(kernel_service::COMPILE, request, options).await?;
        }
        connection.unary(kernel_service::RECORD_SEQUENCE, self.request.clone(), options).await.map(drop)
    }
}

fn is_forgotten<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(failed) if failed.code() == ErrorCode::NeedGraph)
}

impl fmt::Debug for Recording {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Recording of {} steps", self.request.steps.len())
    }
}
