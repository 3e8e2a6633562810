use std::{
    f64::consts::{LN_2, LOG2_E},
    ops::{Add, Div, Mul, Neg, Sub},
};

use super::{Operand, Tensor, Type, mistake, uop, wrong_shape};
use crate::{
    DType, Result,
    v1::{ErrorCode, Op, u_op::Arg},
};

/// The shape that both broadcast to.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut shape = long.to_vec();
    for (size, other) in shape.iter_mut().rev().zip(short.iter().rev()) {
        match (*size, *other) {
            (1, other) => *size = other,
            (size, other) if size != other && other != 1 => return None,
            _ => {}
        }
    }
    Some(shape)
}

impl<'g> Tensor<'g> {
    /// An operand as a tensor of this graph and dtype.
    fn lifted(self, operand: Operand<'g>, dtype: DType) -> Result<(Tensor<'g>, Type)> {
        let other = match operand {
            Operand::Tensor(other) => other,
            number => Tensor { graph: self.graph, node: Some(self.graph.try_scalar(dtype, number)?) },
        };
        let (_, is) = self.graph.known(other)?;
        if is.dtype != dtype {
            return Err(mistake(ErrorCode::DtypeMismatch, format!("{dtype} and {}: cast one", is.dtype)));
        }
        Ok((other, is))
    }

    /// An op of two tensors, which gives their dtype or, if it compares, bools.
    fn binary(self, function: &str, op: Op, operand: Operand<'g>, compares: bool) -> Tensor<'g> {
        self.attempt(function, |_, is| {
            let (other, its) = self.lifted(operand, is.dtype)?;
            let shape = broadcast(&is.shape, &its.shape)
                .ok_or_else(|| wrong_shape(format!("{:?} and {:?} do not broadcast", is.shape, its.shape)))?;
            let sources = [self.broadcast(&shape).node()?, other.broadcast(&shape).node()?];
            let dtype = if compares { DType::Bool } else { is.dtype };
            self.graph.building().tensor(uop(op, sources, None), dtype, &shape)
        })
    }

    /// The greater of both; NaN if one of them is.
    pub fn maximum(self, other: impl Into<Operand<'g>>) -> Tensor<'g> {
        self.binary("maximum", Op::Max, other.into(), false)
    }

    /// Whether it is less.
    pub fn less(self, other: impl Into<Operand<'g>>) -> Tensor<'g> {
        self.binary("less", Op::Cmplt, other.into(), true)
    }

    /// Whether it is greater.
    pub fn greater(self, other: impl Into<Operand<'g>>) -> Tensor<'g> {
        self.binary("greater", Op::Cmpgt, other.into(), true)
    }

    /// Whether both are equal.
    pub fn equal(self, other: impl Into<Operand<'g>>) -> Tensor<'g> {
        self.binary("equal", Op::Cmpeq, other.into(), true)
    }

    /// Of a tensor of bools: the first where it is true, the second elsewhere (numpy's `where`). One of both is a
    /// tensor.
    pub fn select(self, then: impl Into<Operand<'g>>, otherwise: impl Into<Operand<'g>>) -> Tensor<'g> {
        let (then, otherwise) = (then.into(), otherwise.into());
        self.attempt("select", |_, is| {
            let ((Operand::Tensor(like), _) | (_, Operand::Tensor(like))) = (then, otherwise) else {
                return Err(mistake(ErrorCode::BadArgument, "two numbers: make one of them by Graph::scalar"));
            };
            let dtype = self.graph.known(like)?.1.dtype;
            let (then, a) = self.lifted(then, dtype)?;
            let (otherwise, b) = self.lifted(otherwise, dtype)?;
            if is.dtype != DType::Bool {
                let message = format!("the condition is {}, not bool", is.dtype);
                return Err(mistake(ErrorCode::DtypeMismatch, message));
            }
            let shape = broadcast(&a.shape, &b.shape).and_then(|shape| broadcast(&is.shape, &shape));
            let shape = shape.ok_or_else(|| {
                wrong_shape(format!("{:?}, {:?} and {:?} do not broadcast", is.shape, a.shape, b.shape))
            })?;
            let parts = [self, then, otherwise].map(|part| part.broadcast(&shape).node());
            let [condition, then, otherwise] = parts;
            let sources = [condition?, then?, otherwise?];
            self.graph.building().tensor(uop(Op::Where, sources, None), dtype, &shape)
        })
    }

    /// Converts to another dtype.
    pub fn cast(self, dtype: DType) -> Tensor<'g> {
        self.attempt("cast", |node, is| {
            if is.dtype == dtype {
                return Ok(node);
            }
            let arg = Some(Arg::CastTo(dtype.wire()));
            self.graph.building().tensor(uop(Op::Cast, [node], arg), dtype, &is.shape)
        })
    }

    /// An op of one float.
    fn float(self, function: &str, op: Op) -> Tensor<'g> {
        self.attempt(function, |node, is| {
            if !is.dtype.is_float() {
                return Err(mistake(ErrorCode::DtypeMismatch, format!("of {}: cast it to a float", is.dtype)));
            }
            self.graph.building().tensor(uop(op, [node], None), is.dtype, &is.shape)
        })
    }

    /// 1 / it.
    pub fn reciprocal(self) -> Tensor<'g> {
        self.float("reciprocal", Op::Reciprocal)
    }

    /// The square root.
    pub fn sqrt(self) -> Tensor<'g> {
        self.float("sqrt", Op::Sqrt)
    }

    /// The sine.
    pub fn sin(self) -> Tensor<'g> {
        self.float("sin", Op::Sin)
    }

    /// e to the power of it.
    pub fn exp(self) -> Tensor<'g> {
        if !matches!(self.dtype(), Ok(dtype) if dtype.is_float()) {
            return self.float("exp", Op::Exp2); // which says so
        }
        self.wide(|x| (x * LOG2_E).float("exp", Op::Exp2))
    }

    /// The natural logarithm.
    pub fn log(self) -> Tensor<'g> {
        self.wide(|x| x.float("log", Op::Log2) * LN_2)
    }

    /// It where it is above 0, else 0.
    pub fn relu(self) -> Tensor<'g> {
        self.maximum(0)
    }

    /// It, but no gradient flows through.
    pub fn detach(self) -> Tensor<'g> {
        self.mapped("detach", Op::Detach, None)
    }
}

impl<'g, O: Into<Operand<'g>>> Add<O> for Tensor<'g> {
    type Output = Tensor<'g>;

    fn add(self, other: O) -> Tensor<'g> {
        self.binary("+", Op::Add, other.into(), false)
    }
}

impl<'g, O: Into<Operand<'g>>> Sub<O> for Tensor<'g> {
    type Output = Tensor<'g>;

    fn sub(self, other: O) -> Tensor<'g> {
        self.binary("-", Op::Sub, other.into(), false)
    }
}

impl<'g, O: Into<Operand<'g>>> Mul<O> for Tensor<'g> {
    type Output = Tensor<'g>;

    fn mul(self, other: O) -> Tensor<'g> {
        self.binary("*", Op::Mul, other.into(), false)
    }
}

/// Of floats the quotient, of integers the greatest that is not above it.
impl<'g, O: Into<Operand<'g>>> Div<O> for Tensor<'g> {
    type Output = Tensor<'g>;

    fn div(self, other: O) -> Tensor<'g> {
        let is_float = self.dtype().is_ok_and(DType::is_float);
        self.binary("/", if is_float { Op::Fdiv } else { Op::Floordiv }, other.into(), false)
    }
}

impl<'g> Neg for Tensor<'g> {
    type Output = Tensor<'g>;

    fn neg(self) -> Tensor<'g> {
        self.mapped("-", Op::Neg, None)
    }
}

/// A number on the left takes the dtype of the tensor on the right.
macro_rules! numbers_on_the_left {
    ($number:ty: $($operator:ident $function:ident),*) => {$(
        impl<'g> $operator<Tensor<'g>> for $number {
            type Output = Tensor<'g>;

            fn $function(self, other: Tensor<'g>) -> Tensor<'g> {
                let left = other.attempt("scalar", |_, is| other.graph.try_scalar(is.dtype, self.into()));
                left.$function(other)
            }
        }
    )*};
}

numbers_on_the_left! { i32: Add add, Sub sub, Mul mul, Div div }
numbers_on_the_left! { i64: Add add, Sub sub, Mul mul, Div div }
numbers_on_the_left! { f32: Add add, Sub sub, Mul mul, Div div }
numbers_on_the_left! { f64: Add add, Sub sub, Mul mul, Div div }
