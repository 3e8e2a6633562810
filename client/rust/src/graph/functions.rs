use super::{Building, Graph, Tensor, Type, mistake, uop, wrong_shape};
use crate::{
    DType, Result, Status,
    dtype::shape_of,
    error::Error,
    v1::{self, AddrSpace, ErrorCode, Op, u_op::Arg},
};

impl Graph {
    /// Calls another graph as a function: argument k stands in the place of its parameter in slot k. What it gives are
    /// the other graph's outputs. A large body that is called twice is compiled once.
    ///
    /// ```
    /// use kiln::{DType::Float32, Graph};
    ///
    /// let body = Graph::new();
    /// body.output(body.param("a", Float32, [3]) * body.param("b", Float32, [3]));
    /// let graph = Graph::new();
    /// let x = graph.param("x", Float32, [3]);
    /// let square = graph.call(&body, &[x, x])[0];
    /// graph.output(graph.call(&body, &[square, x])[0]);
    /// # graph.build()?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn call<'g>(&'g self, body: &Graph, arguments: &[Tensor<'g>]) -> Vec<Tensor<'g>> {
        let results = body.building().results.clone();
        let called = self.try_call(body, &results, arguments);
        results
            .iter()
            .enumerate()
            .map(|(at, is)| {
                let made = called.clone().and_then(|call| {
                    let part = uop(Op::Gettuple, [call], Some(Arg::Index(at as i64)));
                    self.building().tensor(part, is.dtype, &is.shape)
                });
                self.keep("call", made)
            })
            .collect()
    }

    fn try_call(&self, body: &Graph, results: &[Type], arguments: &[Tensor<'_>]) -> Result<u32> {
        let built = body.build()?;
        let mut nodes = Vec::new();
        for argument in arguments {
            nodes.push(self.known(*argument)?);
        }
        for (slot, held) in &body.building().slots {
            match nodes.get(*slot as usize) {
                None => {
                    return Err(mistake(ErrorCode::MissingArgument, format!("no argument for slot {slot}")));
                }
                Some((_, is)) if *is != held.of => {
                    let message = format!("parameter {:?} is {}, the argument {is}", held.name, held.of);
                    return Err(wrong_shape(message));
                }
                Some(_) => {}
            }
        }
        if body.building().outputs.len() != results.len() {
            return Err(mistake(ErrorCode::BadArgument, "the body updates a parameter"));
        }
        let mut building = self.building();
        let copied = building.copy(&built.nodes);
        let mut sources: Vec<u32> = copied.last().copied().into_iter().collect();
        sources.extend(nodes.iter().map(|(node, _)| *node));
        Ok(building.node(uop(Op::Function, sources, None), None))
    }

    /// Puts a gradient's graph into this one, and gives its results in order. Its parameters are those of equal slots
    /// here.
    pub fn append<'g>(&'g self, gradient: &v1::GradientResponse) -> Vec<Tensor<'g>> {
        let made = self.building().append(gradient);
        (0..gradient.results.len())
            .map(|at| self.keep("append", made.as_ref().map(|nodes| nodes[at]).map_err(Clone::clone)))
            .collect()
    }
}

impl Building {
    /// Puts nodes of a graph into this one, and gives their indices here. Sources are earlier.
    fn copy(&mut self, nodes: &[v1::UOp]) -> Vec<u32> {
        let mut numbers: Vec<u32> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let src = node.src.iter().map(|source| numbers[*source as usize]).collect();
            numbers.push(self.node(v1::UOp { src, ..node.clone() }, None));
        }
        numbers
    }

    /// What a server made is looked at before it is believed.
    fn append(&mut self, gradient: &v1::GradientResponse) -> Result<Vec<u32>> {
        let nodes = gradient.graph.as_ref().map_or(&[][..], |graph| &graph.nodes);
        let root = nodes.split_last().filter(|(root, _)| root.src.len() == gradient.results.len());
        let Some((root, nodes)) = root else {
            return Err(mistake(ErrorCode::BadRoot, "no gradient"));
        };
        let is_earlier = |(number, node): (usize, &v1::UOp)| node.src.iter().all(|source| (*source as usize) < number);
        if !nodes.iter().chain([root]).enumerate().all(is_earlier) {
            return Err(mistake(ErrorCode::GraphCycle, "a source is not earlier than its node"));
        }
        for node in nodes.iter().filter(|node| node.op() == Op::Param) {
            let arg = if let Some(Arg::Buffer(arg)) = &node.arg { Some(arg) } else { None };
            let is_known =
                |arg: &v1::BufferArg| arg.addrspace() == AddrSpace::Alu || self.slots.contains_key(&arg.slot);
            if !arg.is_some_and(is_known) {
                let slot = arg.map_or(0, |arg| arg.slot);
                let message = format!("there is no parameter in slot {slot}: make it by param_at");
                return Err(mistake(ErrorCode::UnknownArgument, message));
            }
        }
        let types = gradient.results.iter().map(|row| {
            let made = DType::of_wire(row.dtype).zip(shape_of(&row.shape));
            made.map(|(dtype, shape)| Type { dtype, shape }).ok_or_else(|| {
                let message = format!("a result of dtype {} and shape {:?}", row.dtype, row.shape);
                Error::new(ErrorCode::InternalFault, Status::Internal, message)
            })
        });
        let types = types.collect::<Result<Vec<Type>>>()?;
        let copied = self.copy(nodes);
        let results = root.src.iter().zip(types).map(|(source, is)| {
            let node = copied[*source as usize];
            self.types[node as usize].get_or_insert(is);
            node
        });
        Ok(results.collect())
    }
}
