use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    Argument, Call, Client, Error, Graph, Result, Status,
    error::bad_server,
    hash,
    v1::{self, ErrorCode, kernel_service},
};

/// Arrays of more bytes travel in chunks of their own, not in the message of a call.
pub(crate) const INLINE: usize = 4 << 20;

/// What can be compiled: a [`Graph`], or a message as [`read_graph`](crate::read_graph) gives it.
pub trait Compilable {
    /// The graph as a message.
    fn message(&self) -> Result<v1::Graph>;

    /// How many results there will be, where that is known.
    fn results(&self) -> Option<usize> {
        None
    }
}

impl Compilable for Graph {
    fn message(&self) -> Result<v1::Graph> {
        self.build()
    }

    fn results(&self) -> Option<usize> {
        Some(self.result_count())
    }
}

impl Compilable for v1::Graph {
    fn message(&self) -> Result<v1::Graph> {
        Ok(self.clone())
    }
}

/// A graph that a server has compiled. Copies of it are the same program.
#[derive(Clone)]
pub struct Program(pub(crate) Arc<Compiled>);

pub(crate) struct Compiled {
    pub client: Client,
    pub graph: v1::Graph,
    pub options: Option<v1::CompileOptions>,
    pub hash: Bytes,
    pub signature: v1::Signature,
    pub is_sharded: bool,
    /// In ascending order of slot.
    pub takes: Vec<Taken>,
    /// All results fit a message.
    pub is_small: bool,
}

/// A parameter, or a variable.
pub(crate) struct Taken {
    pub slot: u32,
    pub name: String,
}

/// Arguments by slot.
pub(crate) type Bound = BTreeMap<u32, Argument>;

impl Client {
    /// Compiles a graph, or finds it compiled. It computes the graph's hash itself, and believes no server that says
    /// another.
    pub fn compile(&self, graph: &(impl Compilable + ?Sized)) -> Call<'static, Program> {
        self.compile_with(graph, None)
    }

    /// Compiles a graph with options.
    pub fn compile_with(
        &self,
        graph: &(impl Compilable + ?Sized),
        with: impl Into<Option<v1::CompileOptions>>,
    ) -> Call<'static, Program> {
        let (client, built, results, with) = (self.clone(), graph.message(), graph.results(), with.into());
        Call::new(move |options| async move {
            let graph = built?;
            let device = client.0.device.clone();
            let request = v1::CompileRequest { graph: Some(graph.clone()), device, options: with.clone() };
            let said = client.0.connection.unary(kernel_service::COMPILE, request, &options).await?;
            Program::new(client, graph, with, said, results)
        })
    }

    /// Asks the server for the graph of a result's gradient with respect to parameters, by their slots. The answer's
    /// graph can be compiled, or put into another ([`Graph::append`]). The result must have one element.
    pub fn gradient(&self, graph: &(impl Compilable + ?Sized), wrt: &[u32]) -> Call<'static, v1::GradientResponse> {
        self.gradient_with(graph, v1::GradientRequest { wrt_slot: wrt.to_vec(), ..v1::GradientRequest::default() })
    }

    /// The same with all that may be said, as a cotangent; the request's graph counts for nothing.
    pub fn gradient_with(
        &self,
        graph: &(impl Compilable + ?Sized),
        request: v1::GradientRequest,
    ) -> Call<'static, v1::GradientResponse> {
        let (client, built) = (self.clone(), graph.message());
        Call::new(move |options| async move {
            let request = v1::GradientRequest { graph: Some(built?), ..request };
            client.0.connection.unary(kernel_service::GRADIENT, request, &options).await
        })
    }
}

impl Program {
    fn new(
        client: Client,
        graph: v1::Graph,
        options: Option<v1::CompileOptions>,
        said: v1::CompileResponse,
        results: Option<usize>,
    ) -> Result<Program> {
        let own = hash(&graph)?;
        if own[..] != said.graph_hash[..] {
            let message = "the server says another hash of the graph than it has";
            return Err(Error::new(ErrorCode::HashMismatch, Status::Internal, message));
        }
        let signature = said.signature.ok_or_else(|| bad_server("compiled, and does not say to what"))?;
        check(&signature, results)?;
        let parameters = signature.parameters.iter().map(|row| (row.slot, &row.name));
        let variables = signature.variables.iter().map(|row| (row.slot, &row.name));
        let rows = parameters.chain(variables).map(|(slot, name)| Taken { slot, name: name.clone() });
        let mut takes: Vec<Taken> = rows.collect();
        takes.sort_by_key(|row| row.slot);
        let total = signature.results.iter().try_fold(0u64, |total, row| total.checked_add(row.bytes));
        Ok(Program(Arc::new(Compiled {
            client,
            graph,
            options,
            hash: said.graph_hash,
            is_sharded: !said.result_layouts.is_empty(),
            takes,
            is_small: total.is_some_and(|total| total <= INLINE as u64),
            signature,
        })))
    }

    /// The graph's, 32 bytes.
    pub fn hash(&self) -> &[u8] {
        &self.0.hash
    }

    /// What the program takes and gives.
    pub fn signature(&self) -> &v1::Signature {
        &self.0.signature
    }

    /// What was sent: nodes in errors are of it.
    pub fn graph(&self) -> &v1::Graph {
        &self.0.graph
    }

    /// Gives arguments their slots.
    pub(crate) fn bind(&self, arguments: Vec<Argument>) -> Result<Bound> {
        let takes = &self.0.takes;
        let unknown = |message: String| Error::new(ErrorCode::UnknownArgument, Status::InvalidArgument, message);
        let count = arguments.len();
        let mut unnamed = takes.iter();
        let mut bound = Bound::new();
        for argument in arguments {
            let (row, argument) = match argument {
                Argument::Named(name, value) => {
                    let row = takes.iter().find(|row| row.name == name);
                    (row.ok_or_else(|| unknown(format!("the program has no parameter {name:?}")))?, *value)
                }
                Argument::InSlot(slot, value) => {
                    let row = takes.iter().find(|row| row.slot == slot);
                    (row.ok_or_else(|| unknown(format!("the program has no parameter in slot {slot}")))?, *value)
                }
                other => {
                    let row = unnamed.next();
                    (row.ok_or_else(|| unknown(format!("{count} arguments for a program of {}", takes.len())))?, other)
                }
            };
            if bound.insert(row.slot, argument).is_some() {
                return Err(crate::error::bad_argument(format!("{:?} is given twice", row.name)));
            }
        }
        Ok(bound)
    }

    pub(crate) fn request(&self, bound: &Bound) -> v1::ExecuteRequest {
        v1::ExecuteRequest {
            graph_hash: self.0.hash.clone(),
            device: self.0.client.0.device.clone(),
            options: self.0.options.clone(),
            arguments: bound.iter().map(|(slot, value)| value.to_wire(*slot)).collect(),
            ..v1::ExecuteRequest::default()
        }
    }
}

/// Fails where the server's word could not be used.
fn check(said: &v1::Signature, results: Option<usize>) -> Result<()> {
    for (at, row) in said.results.iter().enumerate() {
        if let Some(aliases) = row.aliases.filter(|aliases| *aliases as usize >= said.parameters.len()) {
            let message = format!("says that result {at} is parameter {aliases} of {}", said.parameters.len());
            return Err(bad_server(message));
        }
    }
    match results {
        Some(wanted) if wanted != said.results.len() => {
            Err(bad_server(format!("says that {wanted} outputs give {} results", said.results.len())))
        }
        _ => Ok(()),
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash: String = self.hash().iter().map(|byte| format!("{byte:02x}")).collect();
        write!(to, "Program({hash})")
    }
}
