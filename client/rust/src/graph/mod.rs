//! Building graphs. Nothing is computed here, and equal nodes are one.

mod conv;
mod elementwise;
mod functions;
mod movement;
mod operand;
mod reduce;
mod tensor;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prost::Message;

pub use conv::Conv2d;
pub use movement::Size;
pub use operand::Operand;
pub use reduce::Reduction;
pub use tensor::Tensor;

use crate::{
    DType, Error, Result, Status,
    dtype::{byte_count, wire_shape},
    v1::{self, ErrorCode, Op, UOp, u_op::Arg},
};

/// A graph under construction, of which [`Tensor`]s are the nodes. The first mistake is kept, and told by
/// [`build`](Graph::build) and [`Client::compile`](crate::Client::compile): what follows it does nothing. So a formula
/// reads as one.
///
/// ```
/// use kiln::{DType::Float32, Graph};
///
/// let graph = Graph::new();
/// let x = graph.param("x", Float32, [2, 3]);
/// let weights = graph.param("weights", Float32, [3, 4]);
/// graph.output((x.matmul(weights) * 2.0 + 1.0).relu().softmax(-1));
/// assert_eq!(graph.build()?.nodes.last().unwrap().op(), kiln::v1::Op::Tuple);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Default)]
pub struct Graph(Mutex<Building>);

#[derive(Default)]
struct Building {
    nodes: Vec<UOp>,
    /// By node; None for those that are no tensors.
    types: Vec<Option<Type>>,
    interned: HashMap<Vec<u8>, u32>,
    slots: BTreeMap<u32, Parameter>,
    outputs: Vec<u32>,
    /// Of the outputs, those that are no updates.
    results: Vec<Type>,
    failed: Option<Error>,
}

/// What a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Type {
    dtype: DType,
    shape: Vec<usize>,
}

impl fmt::Display for Type {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {:?}", self.dtype, self.shape)
    }
}

struct Parameter {
    name: String,
    of: Type,
}

/// Ops through which a tensor is a view of a parameter.
const VIEWS: [Op; 5] = [Op::Reshape, Op::Permute, Op::Shrink, Op::Flip, Op::Bitcast];

fn mistake(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(code, Status::InvalidArgument, message)
}

fn wrong_shape(message: impl Into<String>) -> Error {
    mistake(ErrorCode::ShapeMismatch, message)
}

fn uop(op: Op, src: impl Into<Vec<u32>>, arg: Option<Arg>) -> UOp {
    UOp { op: op.into(), src: src.into(), arg, ..UOp::default() }
}

impl Building {
    /// The index of a node, which is that of an equal one if there is any.
    fn node(&mut self, made: UOp, is: Option<Type>) -> u32 {
        let next = self.nodes.len() as u32; // a graph of 2^32 nodes is more than any message holds
        *self.interned.entry(made.encode_to_vec()).or_insert_with(|| {
            self.nodes.push(made);
            self.types.push(is);
            next
        })
    }

    fn tensor(&mut self, made: UOp, dtype: DType, shape: &[usize]) -> Result<u32> {
        if byte_count(dtype, shape).is_none() {
            let message = format!("{dtype} of shape {shape:?} is more than any memory holds");
            return Err(mistake(ErrorCode::SizeOverflow, message));
        }
        Ok(self.node(made, Some(Type { dtype, shape: shape.to_vec() })))
    }

    /// A shape as a source of movement ops.
    fn shape(&mut self, shape: &[usize]) -> u32 {
        let sizes: Vec<u32> = wire_shape(shape)
            .into_iter()
            .map(|size| {
                let value = Some(v1::const_arg::Value::I(size));
                let constant = v1::ConstArg { dtype: v1::DType::Weakint.into(), value };
                self.node(uop(Op::Const, [], Some(Arg::Constant(constant))), None)
            })
            .collect();
        self.node(uop(Op::Stack, sizes, None), None)
    }

    fn keep_mistake(&mut self, function: &str, mut error: Error) {
        if self.failed.is_none() {
            let parts = error.parts_mut();
            parts.message = format!("{function}: {}", parts.message);
            self.failed = Some(error);
        }
    }
}

impl Graph {
    /// Begins a graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    fn building(&self) -> MutexGuard<'_, Building> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first mistake is kept, and nothing is made of it.
    fn keep(&self, function: &str, made: Result<u32>) -> Tensor<'_> {
        let mut building = self.building();
        let node = made.map_err(|error| building.keep_mistake(function, error)).ok();
        Tensor { graph: self, node: node.filter(|_| building.failed.is_none()) }
    }

    /// An argument of the program, in the next free slot.
    pub fn param(&self, name: &str, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor<'_> {
        let slot = self.building().slots.last_key_value().map_or(0, |(slot, _)| slot.saturating_add(1));
        self.param_at(slot, name, dtype, shape)
    }

    /// An argument of the program in a slot of the caller's choice.
    pub fn param_at(&self, slot: u32, name: &str, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor<'_> {
        let made = self.building().param(slot, name, Type { dtype, shape: shape.as_ref().to_vec() });
        self.keep("param", made)
    }

    /// Makes a tensor a result of the program, in the order of all calls.
    pub fn output(&self, tensor: Tensor<'_>) {
        let made = self.known(tensor).map(|(node, is)| {
            let mut building = self.building();
            building.outputs.push(node);
            building.results.push(is);
            node
        });
        self.keep("output", made);
    }

    /// Stores a value to a parameter, or to a view of one, when the program has run. Other nodes see what was before.
    pub fn update(&self, target: Tensor<'_>, value: Tensor<'_>) {
        let made = self.try_update(target, value);
        self.keep("update", made);
    }

    fn try_update(&self, target: Tensor<'_>, value: Tensor<'_>) -> Result<u32> {
        let (to, is) = self.known(target)?;
        let (_, given) = self.known(value)?;
        let mut base = to;
        {
            let building = self.building();
            // Nodes of a gradient are as a server made them: a view may be of nothing.
            let viewed = |node: u32| {
                let node = &building.nodes[node as usize];
                node.src.first().copied().filter(|_| VIEWS.contains(&node.op()))
            };
            while let Some(source) = viewed(base) {
                base = source;
            }
            if building.nodes[base as usize].op() != Op::Param {
                let message = "only a parameter or a view of one can be updated; this is computed";
                return Err(mistake(ErrorCode::BadArgument, message));
            }
        }
        if given.dtype != is.dtype {
            let message = format!("the parameter is {}, the value {}: cast it", is.dtype, given.dtype);
            return Err(mistake(ErrorCode::DtypeMismatch, message));
        }
        let (from, _) = self.known(value.broadcast(&is.shape))?;
        let mut building = self.building();
        let store = building.node(uop(Op::Store, [to, from], None), None);
        building.outputs.push(store);
        Ok(store)
    }

    /// A tensor's node and what it is; an error if it is another graph's, or nothing for a mistake.
    fn known(&self, tensor: Tensor<'_>) -> Result<(u32, Type)> {
        if !std::ptr::eq(self, tensor.graph) {
            return Err(mistake(ErrorCode::BadArgument, "a tensor of another graph"));
        }
        let building = self.building();
        let known = tensor.node.and_then(|node| Some((node, building.types.get(node as usize)?.clone()?)));
        known.ok_or_else(|| building.failed.clone().unwrap_or_else(|| mistake(ErrorCode::BadArgument, "no tensor")))
    }

    /// The graph as a message: the nodes that outputs and updates need, the root last. Or the first mistake.
    pub fn build(&self) -> Result<v1::Graph> {
        let building = self.building();
        if let Some(failed) = &building.failed {
            return Err(failed.clone());
        }
        if building.outputs.is_empty() {
            return Err(mistake(ErrorCode::BadRoot, "the graph has neither an output nor an update"));
        }
        let mut needed = vec![false; building.nodes.len()];
        building.outputs.iter().for_each(|node| needed[*node as usize] = true);
        for (node, made) in building.nodes.iter().enumerate().rev().filter(|(_, made)| !made.src.is_empty()) {
            if needed[node] {
                made.src.iter().for_each(|source| needed[*source as usize] = true);
            }
        }
        let mut numbers = vec![0; building.nodes.len()];
        let mut built = v1::Graph::default();
        for (node, made) in building.nodes.iter().enumerate().filter(|(node, _)| needed[*node]) {
            numbers[node] = built.nodes.len() as u32;
            let src = made.src.iter().map(|source| numbers[*source as usize]).collect();
            built.nodes.push(UOp { src, ..made.clone() });
        }
        let root: Vec<u32> = building.outputs.iter().map(|node| numbers[*node as usize]).collect();
        built.nodes.push(uop(Op::Tuple, root, None));
        Ok(built)
    }

    /// How many results its program has.
    pub(crate) fn result_count(&self) -> usize {
        self.building().results.len()
    }
}

impl Building {
    fn param(&mut self, slot: u32, name: &str, of: Type) -> Result<u32> {
        if byte_count(of.dtype, &of.shape).is_none() {
            return Err(mistake(ErrorCode::SizeOverflow, format!("{name:?} cannot be {of}")));
        }
        if let Some(held) = self.slots.get(&slot).filter(|held| held.of != of) {
            return Err(wrong_shape(format!("slot {slot} is {} already, not {of}", held.of)));
        }
        let twin = self.slots.iter().find(|(other, held)| !name.is_empty() && held.name == name && **other != slot);
        if let Some((other, _)) = twin {
            return Err(mistake(ErrorCode::BadArgument, format!("slot {other} is named {name:?} already")));
        }
        self.slots.insert(slot, Parameter { name: name.into(), of: of.clone() });
        let arg = v1::BufferArg { slot, dtype: of.dtype.wire(), name: name.into(), ..v1::BufferArg::default() };
        let sizes = self.shape(&of.shape);
        self.tensor(uop(Op::Param, [sizes], Some(Arg::Buffer(arg))), of.dtype, &of.shape)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let building = self.building();
        to.debug_struct("Graph").field("nodes", &building.nodes.len()).field("failed", &building.failed).finish()
    }
}

#[cfg(test)]
mod tests;
