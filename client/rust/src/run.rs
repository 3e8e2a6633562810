use std::collections::HashSet;

use crate::{
    Argument, Array, Buffer, Call, DType, Program, Result,
    call::CallOptions,
    dtype::{byte_count, shape_of},
    error::{bad_argument, bad_server},
    program::{Bound, INLINE},
    v1::{self, ErrorCode, ResultMode, kernel_service, result_value::Value},
};

fn arguments<A: Into<Argument>>(given: impl IntoIterator<Item = A>) -> Vec<Argument> {
    given.into_iter().map(Into::into).collect()
}

impl Program {
    /// Runs the program once and brings its results here. A parameter that the program stores to is updated in place if
    /// it is a buffer. [`args!`](crate::args) writes arguments of several kinds.
    pub fn run<A: Into<Argument>>(&self, given: impl IntoIterator<Item = A>) -> Call<'static, Vec<Array>> {
        let (program, given) = (self.clone(), arguments(given));
        Call::new(move |options| async move {
            let mut bound = program.bind(given)?;
            program.stage(&mut bound, &options).await?;
            let rows = program.execute(&bound, program.0.is_small, &options).await?;
            let mut results = Vec::with_capacity(rows.len());
            for row in rows {
                results.push(match row {
                    Row::Array(array) => array,
                    Row::Buffer(buffer) => buffer.read_within(options.clone()).await?,
                });
            }
            Ok(results)
        })
    }

    /// Runs the program once and leaves its results on the device. One that is a parameter after its update is the
    /// buffer that was given.
    pub fn run_keep<A: Into<Argument>>(&self, given: impl IntoIterator<Item = A>) -> Call<'static, Vec<Buffer>> {
        let (program, given) = (self.clone(), arguments(given));
        Call::new(move |options| async move {
            let mut bound = program.bind(given)?;
            program.stage(&mut bound, &options).await?;
            let client = &program.0.client;
            let mut results = Vec::new();
            for row in program.execute(&bound, false, &options).await? {
                results.push(match row {
                    Row::Buffer(buffer) => buffer,
                    // Of a parameter that was sent by value.
                    Row::Array(array) => client.uploaded(client.0.device.clone(), array, &options).await?,
                });
            }
            Ok(results)
        })
    }

    /// Uploads what is too large for a message; it is freed with what was bound.
    async fn stage(&self, bound: &mut Bound, options: &CallOptions) -> Result<()> {
        let client = &self.0.client;
        for value in bound.values_mut() {
            if let Argument::Array(array) = value
                && array.data().len() > INLINE
            {
                let staged = client.uploaded(client.0.device.clone(), array.clone(), options).await?;
                *value = Argument::Buffer(staged);
            }
        }
        Ok(())
    }

    /// Sends the graph if, and only if, the server has forgotten it.
    async fn execute(&self, bound: &Bound, by_value: bool, options: &CallOptions) -> Result<Vec<Row>> {
        let mode = if by_value { ResultMode::ResultInline } else { ResultMode::ResultHandles };
        let request = v1::ExecuteRequest { result_mode: mode.into(), ..self.request(bound) };
        let connection = &self.0.client.0.connection;
        let answer = match connection.unary(kernel_service::EXECUTE, request.clone(), options).await {
            Err(failed) if failed.code() == ErrorCode::NeedGraph => {
                let request = v1::ExecuteRequest { graph: Some(self.0.graph.clone()), ..request };
                connection.unary(kernel_service::EXECUTE, request, options).await?
            }
            answer => answer?,
        };
        let mut rows = Rows { program: self, bound, handles: handles(bound) };
        // All are taken, so that a buffer that is as it should be is given back though another is not.
        let taken: Vec<Result<Row>> =
            answer.results.into_iter().enumerate().map(|(at, row)| rows.take(at, row.value)).collect();
        let wanted = self.0.signature.results.len();
        if taken.len() != wanted {
            return Err(bad_server(format!("gave {} results, not {wanted}", taken.len())));
        }
        taken.into_iter().collect()
    }
}

/// A result, here or on the device.
enum Row {
    Array(Array),
    Buffer(Buffer),
}

/// The caller's own memory.
fn handles(bound: &Bound) -> HashSet<u64> {
    bound.values().filter_map(Argument::buffer).map(Buffer::handle).collect()
}

struct Rows<'a> {
    program: &'a Program,
    bound: &'a Bound,
    /// Those that are somebody's: what was given, and what has been taken.
    handles: HashSet<u64>,
}

impl Rows<'_> {
    fn take(&mut self, at: usize, value: Option<Value>) -> Result<Row> {
        match value {
            Some(Value::Tensor(tensor)) => Ok(Row::Array(Array::of_wire(tensor)?)),
            Some(Value::Buffer(said)) => self.buffer(at, said).map(Row::Buffer),
            Some(Value::Shards(_)) => Err(bad_argument("a result is on several devices: call it by Client::call")),
            None => Err(bad_server(format!("gave result {at} without a value"))),
        }
    }

    /// The caller's own, if it is an argument's memory; else memory of a size that can be.
    fn buffer(&mut self, at: usize, said: v1::BufferDescription) -> Result<Buffer> {
        let own = self.bound.values().filter_map(Argument::buffer).find(|buffer| buffer.is(said.handle));
        if let Some(own) = own {
            return Ok(own.clone());
        }
        if !self.handles.insert(said.handle) {
            return Err(bad_server(format!("gave result {at} as the memory of another")));
        }
        let client = &self.program.0.client;
        let (dtype, shape) = (DType::of_wire(said.dtype), shape_of(&said.shape));
        let count = dtype.zip(shape.as_ref()).and_then(|(dtype, shape)| byte_count(dtype, shape));
        let (bytes, described) = (said.bytes, format!("{} bytes of {:?}", said.bytes, said.shape));
        // Made first, so that it is freed whatever is wrong with it.
        let made = Buffer::new(client, said.handle, dtype, shape.unwrap_or_default(), bytes, said.device);
        let row = self.program.0.signature.results.get(at);
        let is_known = |row: &v1::signature::Result| !row.symbolic.is_empty() || row.bytes == bytes;
        if count.map(|count| count as u64) != Some(bytes) || !row.is_some_and(is_known) {
            return Err(bad_server(format!("gave result {at} as {described}")));
        }
        Ok(made)
    }
}
