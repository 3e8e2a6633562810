use super::{Graph, Type, uop};
use crate::{
    DType, Result,
    v1::{Op, u_op::Arg},
};

/// A value in a graph. It is a name for a node, and can be copied.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'g> {
    pub(super) graph: &'g Graph,
    /// None of what a mistake would have made.
    pub(super) node: Option<u32>,
}

impl<'g> Tensor<'g> {
    pub(super) fn known(self) -> Result<(u32, Type)> {
        self.graph.known(self)
    }

    /// What its elements are; or the graph's first mistake.
    pub fn dtype(self) -> Result<DType> {
        Ok(self.known()?.1.dtype)
    }

    /// The size along each axis; or the graph's first mistake.
    pub fn shape(self) -> Result<Vec<usize>> {
        Ok(self.known()?.1.shape)
    }

    /// Does what may be a mistake.
    pub(super) fn attempt(self, function: &str, make: impl FnOnce(u32, Type) -> Result<u32>) -> Tensor<'g> {
        let made = self.known().and_then(|(node, is)| make(node, is));
        self.graph.keep(function, made)
    }

    /// The node of a tensor that a function is made of, or its mistake.
    pub(super) fn node(self) -> Result<u32> {
        Ok(self.known()?.0)
    }

    /// An op of this one tensor, which keeps its shape.
    pub(super) fn mapped(self, function: &str, op: Op, arg: Option<Arg>) -> Tensor<'g> {
        self.attempt(function, |node, is| self.graph.building().tensor(uop(op, [node], arg), is.dtype, &is.shape))
    }

    /// Computes floats of less than 32 bits in 32, and rounds once.
    pub(super) fn wide(self, of: impl FnOnce(Tensor<'g>) -> Tensor<'g>) -> Tensor<'g> {
        match self.dtype() {
            Ok(dtype) if dtype.is_narrow() => of(self.cast(DType::Float32)).cast(dtype),
            _ => of(self),
        }
    }
}
