use super::{Graph, Tensor, mistake, uop};
use crate::{
    DType, Result, hash,
    v1::{self, ErrorCode, Op, const_arg::Value, u_op::Arg},
};

/// A tensor of the same graph, or a number, which takes the dtype of the tensor that it meets. Tensors that meet have
/// one dtype ([`Tensor::cast`] makes it so), and shapes that broadcast as numpy's do.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'g> {
    /// A tensor.
    Tensor(Tensor<'g>),
    /// A truth.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
}

impl<'g> From<Tensor<'g>> for Operand<'g> {
    fn from(tensor: Tensor<'g>) -> Operand<'g> {
        Operand::Tensor(tensor)
    }
}

macro_rules! numbers {
    ($($number:ty => $variant:ident),*) => {$(
        impl From<$number> for Operand<'_> {
            fn from(number: $number) -> Self {
                Operand::$variant(number.into())
            }
        }
    )*};
}

numbers! { bool => Bool, i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => Int, u16 => Int, u32 => Int, f32 => Float,
f64 => Float }

impl Graph {
    /// A number as a tensor of no axes.
    pub fn scalar<'g>(&'g self, dtype: DType, value: impl Into<Operand<'g>>) -> Tensor<'g> {
        let made = self.try_scalar(dtype, value.into());
        self.keep("scalar", made)
    }

    pub(super) fn try_scalar(&self, dtype: DType, value: Operand<'_>) -> Result<u32> {
        let made = match value {
            Operand::Tensor(_) => return Err(mistake(ErrorCode::BadArgument, "a tensor is no number")),
            Operand::Bool(value) => Value::B(value),
            Operand::Int(value) => Value::I(value),
            Operand::Float(value) => Value::F(value),
        };
        let constant = v1::ConstArg { dtype: dtype.wire(), value: Some(made) };
        if !hash::is_held(&constant) {
            return Err(mistake(ErrorCode::BadArgument, format!("{dtype} does not hold {value:?}")));
        }
        self.building().tensor(uop(Op::Const, [], Some(Arg::Constant(constant))), dtype, &[])
    }

    /// An array of one number.
    pub fn full<'g>(&'g self, dtype: DType, value: impl Into<Operand<'g>>, shape: impl AsRef<[usize]>) -> Tensor<'g> {
        self.scalar(dtype, value).broadcast(shape)
    }

    /// 0, 1, …, stop - 1.
    pub fn arange(&self, dtype: DType, stop: usize) -> Tensor<'_> {
        if stop > i32::MAX as usize {
            return self.keep("arange", Err(mistake(ErrorCode::BadArgument, format!("of {stop} numbers"))));
        }
        // A number is the sum of its binary digits, and each digit is an axis of two.
        let mut total = self.full(dtype, 0, [1]);
        let mut count = 1;
        while count < stop {
            let pair = self.pair(self.scalar(dtype, 0), self.scalar(dtype, count as i64));
            total = (pair.reshape([2, 1]) + total.reshape([1, count])).reshape([2 * count]);
            count *= 2;
        }
        total.first(0, stop)
    }

    fn pair<'g>(&'g self, first: Tensor<'g>, second: Tensor<'g>) -> Tensor<'g> {
        first.attempt("stack", |node, is| {
            let other = second.node()?;
            let shape = [&[2], &is.shape[..]].concat();
            self.building().tensor(uop(Op::Stack, [node, other], None), is.dtype, &shape)
        })
    }
}
