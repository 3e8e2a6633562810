//! The Rust client of kilnd: it sends graphs of tensor operations to a server, keeps arrays on its devices and runs
//! programs there.
//!
//! ```no_run
//! use kiln::{Client, DType::Float32, Graph};
//!
//! # async fn example() -> kiln::Result<()> {
//! let client = Client::connect("localhost:7437").await?;
//! let graph = Graph::new();
//! graph.output(graph.param("x", Float32, [4]) * 2 + 1);
//! let program = client.compile(&graph).await?;
//! let results = program.run([vec![1.0f32, 2.0, 3.0, 4.0]]).await?;
//! println!("{:?}", results[0].values::<f32>()?);
//! # Ok(())
//! # }
//! ```
//!
//! Everything that talks to the server is a [`Call`], made when it is awaited: it takes a timeout, which the server
//! honours, too, and is cancelled there when its future is dropped. Commands of a [`Stream`] wait for no answer. All
//! failures are [`Error`]. All types may be shared by tasks and threads.
//!
//! Models that the server has of files are a [`Model`] each, which takes arrays by name and gives some
//! ([`Client::model`]).
//!
//! The messages of the protocol are in [`v1`], those of models in [`inference`]; [`Client::call`] makes calls with them
//! that this crate does not make, with the same credentials, session, retries and errors.
//!
//! Features: `tls` (there unless it is left out); `half` for `half::f16` and `half::bf16`; `ndarray` for arrays of that
//! crate; `text` for graphs as protobuf's text.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answers;
mod argument;
mod array;
mod buffer;
mod call;
mod chunks;
mod client;
mod codec;
mod collective;
mod connect;
mod connection;
mod details;
mod dtype;
mod element;
mod error;
mod files;
mod floats;
mod graph;
mod guard;
mod hash;
mod identity;
mod infer;
mod infer_stream;
pub mod inference;
mod link;
mod models;
mod program;
mod recording;
mod retries;
mod run;
mod safetensors;
mod session;
mod stream;
#[cfg(test)]
mod tests;
pub mod v1;

pub use argument::Argument;
pub use array::Array;
pub use buffer::Buffer;
pub use call::Call;
pub use chunks::Chunks;
pub use client::{Answers, Client};
pub use collective::{Collective, CollectiveKind};
pub use connect::ClientBuilder;
pub use dtype::DType;
pub use element::{BHalf, Element, Half, QuarterE4M3, QuarterE4M3Fnuz, QuarterE5M2, QuarterE5M2Fnuz};
pub use error::{Code, Error, Result, Status};
pub use files::{read_graph, write_graph};
pub use floats::{number, round};
pub use graph::{Conv2d, Graph, Operand, Reduction, Size, Tensor};
pub use hash::hash;
pub use infer::{InferRequest, Outputs};
pub use infer_stream::{ModelStream, PendingOutputs};
pub use models::{Model, ModelIndex, TensorMetadata};
pub use program::{Compilable, Program};
pub use recording::{Place, Recording, Step};
pub use safetensors::read_constants;
pub use stream::{Pending, Stream};
