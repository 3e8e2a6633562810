//! A graph's hash, the same in every language: `proto/README.md` fixes each byte.

mod argument;
mod constant;

pub(crate) use constant::is_held;

use crate::{
    Error, Result, Status,
    error::bad_argument,
    v1::{self, DType, Dialect, ErrorCode, Op},
};

/// The hash of a graph. A digest of a node is BLAKE3 over its op's name, its argument in canonical form and its
/// sources' digests, so one pass from the first node to the last gives all. What has no hash is an error with the code
/// and the node that the server would give.
///
/// ```
/// use kiln::{DType, Graph};
///
/// let graph = Graph::new();
/// graph.output(graph.scalar(DType::Int32, 1));
/// assert_eq!(kiln::hash(&graph.build()?)?.len(), 32);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn hash(graph: &v1::Graph) -> Result<[u8; 32]> {
    let refused = |code, message: &str| Err(Error::new(code, Status::InvalidArgument, message));
    if graph.nodes.is_empty() {
        return refused(ErrorCode::GraphEmpty, "a graph without nodes has no hash");
    }
    let Ok(dialect) = Dialect::try_from(graph.dialect) else {
        return refused(ErrorCode::BadArgument, &format!("dialect {} is unknown", graph.dialect));
    };
    let mut digests: Vec<[u8; 32]> = Vec::with_capacity(graph.nodes.len());
    let mut text = Writer(Vec::new());
    for (number, node) in graph.nodes.iter().enumerate() {
        text.0.clear();
        text.node(node, &digests, graph.nodes.len(), dialect == Dialect::Legacy2025).map_err(|error| {
            let op = op_of(node.op).map_or_else(|| node.op.to_string(), |op| op.as_str_name().to_string());
            error.at_node(number, op, &node.tag)
        })?;
        digests.push(*blake3::hash(&text.0).as_bytes());
    }
    let mut root = b"kiln.graph\x01".to_vec();
    root.extend_from_slice(&digests[digests.len() - 1]);
    Ok(*blake3::hash(&root).as_bytes())
}

fn op_of(number: i32) -> Option<Op> {
    Op::try_from(number).ok().filter(|op| *op != Op::Unspecified)
}

/// Writes what is hashed.
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A number of an enum, which travels as 32 bits.
    pub fn number(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn count(&mut self, items: usize) {
        // No message that anybody sent has more.
        self.u32(u32::try_from(items).unwrap_or(u32::MAX));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn strings(&mut self, texts: &[String]) {
        self.count(texts.len());
        texts.iter().for_each(|text| self.bytes(text.as_bytes()));
    }

    pub fn i64s(&mut self, values: &[i64]) {
        self.count(values.len());
        values.iter().for_each(|value| self.i64(*value));
    }

    fn node(&mut self, node: &v1::UOp, digests: &[[u8; 32]], nodes: usize, legacy: bool) -> Result<()> {
        let Some(op) = op_of(node.op) else {
            let message = format!("op {} is unknown", node.op);
            return Err(Error::new(ErrorCode::UnknownOp, Status::Unimplemented, message));
        };
        self.bytes(op_name(op, node, legacy).as_bytes());
        self.argument(node, op)?;
        self.count(node.src.len());
        for source in &node.src {
            let Some(digest) = usize::try_from(*source).ok().and_then(|at| digests.get(at)) else {
                let is_node = (*source as usize) < nodes;
                let (code, what) = match is_node {
                    true => (ErrorCode::GraphCycle, "is not earlier"),
                    false => (ErrorCode::SourceOutOfRange, "is no node of the graph"),
                };
                return Err(Error::new(code, Status::InvalidArgument, format!("source {source} {what}")));
            };
            self.0.extend_from_slice(digest);
        }
        Ok(())
    }

    fn reduction(&mut self, op: i32) -> Result<()> {
        let op = op_of(op).ok_or_else(|| bad_argument(format!("op {op} of the reduction is unknown")))?;
        self.bytes(op.as_str_name().as_bytes());
        Ok(())
    }
}

/// An op's name, by what its dialect, and a dtype that is no mere check, make of it.
fn op_name(op: Op, node: &v1::UOp, legacy: bool) -> String {
    let mut name = match (op, legacy) {
        (Op::Idiv, false) => "FLOORDIV",
        (Op::Idiv, true) => "CDIV",
        (Op::Mod, false) => "FLOORMOD",
        (Op::Mod, true) => "CMOD",
        (Op::Load, true) => "LOAD:LEGACY_2025",
        (Op::Store, true) => "STORE:LEGACY_2025",
        (Op::Range, true) => "RANGE:LEGACY_2025",
        _ => op.as_str_name(),
    }
    .to_string();
    if says_dtype(op, node) {
        name += &format!(":{}", node.dtype);
    }
    name
}

/// Whether the node's dtype is no check, but says what it is.
fn says_dtype(op: Op, node: &v1::UOp) -> bool {
    if node.dtype == 0 {
        return false;
    }
    match op {
        Op::BufferView | Op::Custom | Op::Customi | Op::Empty | Op::Ins | Op::Vconst => true,
        Op::DefineGlobal | Op::DefineLocal | Op::DefineReg | Op::DefineAcc => {
            !matches!(&node.arg, Some(v1::u_op::Arg::Buffer(buffer)) if buffer.dtype != 0)
        }
        Op::Range | Op::Loop | Op::Special => {
            node.dtype != i32::from(DType::Int64) && node.dtype != i32::from(DType::Weakint)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use prost_reflect::{DescriptorPool, DynamicMessage};

    #[test]
    fn every_vector() {
        let vectors = include_str!("../../../../tests/conformance/hash_vectors.json");
        let vectors: Vec<serde_json::Value> = serde_json::from_str(vectors).unwrap();
        assert!(vectors.len() > 100);
        let pool = DescriptorPool::decode(&include_bytes!(concat!(env!("OUT_DIR"), "/kiln.bin"))[..]).unwrap();
        let graphs = pool.get_message_by_name("kiln.v1.Graph").unwrap();
        for vector in vectors {
            let name = &vector["name"];
            let read = DynamicMessage::deserialize(graphs.clone(), vector["graph"].clone()).unwrap();
            let graph = v1::Graph::decode(&read.encode_to_vec()[..]).unwrap();
            let found = hash(&graph);
            match vector["hash"].as_str() {
                Some(wanted) => {
                    let hex: String = found.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
                    assert_eq!(hex, wanted, "{name}");
                }
                None => {
                    let error = found.expect_err(name.as_str().unwrap_or_default());
                    assert_eq!(error.code().to_string(), vector["error"].as_str().unwrap(), "{name}");
                    if let Some(node) = vector["node"].as_u64() {
                        assert_eq!(error.node(), Some(node as u32), "{name}");
                    }
                }
            }
        }
    }
}
