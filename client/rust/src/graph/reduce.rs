use super::{Tensor, Type, mistake, movement::axis_of, uop, wrong_shape};
use crate::{
    DType, Result,
    v1::{self, ErrorCode, Op, u_op::Arg},
};

/// How reductions and collectives combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    #[default]
    Sum,
    /// The product.
    Product,
    /// The greatest.
    Maximum,
}

impl Reduction {
    pub(crate) fn op(self) -> Op {
        match self {
            Reduction::Sum => Op::Add,
            Reduction::Product => Op::Mul,
            Reduction::Maximum => Op::Max,
        }
    }
}

/// All axes for none, in order, each once.
fn axes_of(axes: &[isize], is: &Type) -> Result<Vec<usize>> {
    let count = is.shape.len();
    let mut made = axes.iter().map(|axis| axis_of(*axis, count)).collect::<Result<Vec<_>>>()?;
    made.sort_unstable();
    made.dedup();
    Ok(if axes.is_empty() { (0..count).collect() } else { made })
}

impl<'g> Tensor<'g> {
    /// Combines along axes, which go away; with `[]` along all. Floats of less than 32 bits are added and multiplied in
    /// 32, and rounded once.
    pub fn reduce(self, how: Reduction, axes: impl AsRef<[isize]>) -> Tensor<'g> {
        let axes = axes.as_ref();
        self.attempt("reduce", |_, is| {
            let gone = axes_of(axes, &is)?;
            let left = is.shape.iter().enumerate().filter(|(at, _)| !gone.contains(at)).map(|(_, size)| *size);
            self.reduce_kept(how, axes).reshape(left.collect::<Vec<usize>>()).node()
        })
    }

    /// As [`reduce`](Tensor::reduce), but the axes stay, with size 1.
    pub fn reduce_kept(self, how: Reduction, axes: impl AsRef<[isize]>) -> Tensor<'g> {
        let reduced = |x: Tensor<'g>| {
            x.attempt("reduce", |node, is| {
                let gone = axes_of(axes.as_ref(), &is)?;
                if gone.is_empty() {
                    return Ok(node);
                }
                let mut shape = is.shape.clone();
                gone.iter().for_each(|axis| shape[*axis] = 1);
                let axis = gone.iter().map(|axis| *axis as i64).collect();
                let arg = Some(Arg::Reduce(v1::ReduceArg { op: how.op().into(), axis }));
                x.graph.building().tensor(uop(Op::Reduce, [node], arg), is.dtype, &shape)
            })
        };
        if how == Reduction::Maximum { reduced(self) } else { self.wide(reduced) }
    }

    /// The sum along axes, in the same dtype; with `[]` along all.
    pub fn sum(self, axes: impl AsRef<[isize]>) -> Tensor<'g> {
        self.reduce(Reduction::Sum, axes)
    }

    /// The greatest along axes; with `[]` along all.
    pub fn max(self, axes: impl AsRef<[isize]>) -> Tensor<'g> {
        self.reduce(Reduction::Maximum, axes)
    }

    /// The mean of floats along axes; with `[]` along all.
    pub fn mean(self, axes: impl AsRef<[isize]>) -> Tensor<'g> {
        self.wide(|x| {
            x.attempt("mean", |_, is| {
                let count: f64 = axes_of(axes.as_ref(), &is)?.iter().map(|axis| is.shape[*axis] as f64).product();
                if !is.dtype.is_float() {
                    let message = format!("of {}: cast it to a float", is.dtype);
                    return Err(mistake(ErrorCode::DtypeMismatch, message));
                }
                (x.sum(axes) * (1.0 / count)).node()
            })
        })
    }

    /// The place (int32) of the greatest along an axis, the first of several; of the first NaN if there is one.
    pub fn argmax(self, axis: isize) -> Tensor<'g> {
        self.attempt("argmax", |_, is| {
            let at = axis_of(axis, is.shape.len())?;
            let size = is.shape[at];
            let Ok(whole) = i32::try_from(size) else {
                return Err(wrong_shape(format!("of {size} elements, whose places int32 does not hold")));
            };
            let mut along = vec![1; is.shape.len()];
            along[at] = size;
            // Counted from the end, the first place is the greatest.
            let from_end = (whole - self.graph.arange(DType::Int32, size)).reshape(along);
            let mut places = self.equal(self.reduce_kept(Reduction::Maximum, [axis])).select(from_end, 0);
            if is.dtype.is_float() {
                // What is not even itself is NaN, and no greatest is equal to it.
                places = self.equal(self).select(places, from_end);
            }
            (whole - places.max([axis])).node()
        })
    }

    /// The matrix product of the last two axes; those before broadcast.
    pub fn matmul(self, other: Tensor<'g>) -> Tensor<'g> {
        self.attempt("matmul", |_, is| {
            let (_, its) = self.graph.known(other)?;
            let (n, m) = (is.shape.len(), its.shape.len());
            if n < 2 || m < 2 || is.shape[n - 1] != its.shape[m - 2] {
                let message = "the last axis of one is not the last but one of the other";
                return Err(wrong_shape(format!("{:?} and {:?}: {message}", is.shape, its.shape)));
            }
            let mut rows = is.shape.clone();
            rows.insert(n - 1, 1);
            let mut columns = its.shape.clone();
            columns.swap(m - 2, m - 1);
            columns.insert(m - 2, 1);
            let (rows, columns) = (self.reshape(rows), other.transpose().reshape(columns));
            if is.dtype.is_narrow() && is.dtype == its.dtype {
                let wide = rows.cast(DType::Float32) * columns.cast(DType::Float32);
                return wide.sum([-1]).cast(is.dtype).node();
            }
            (rows * columns).sum([-1]).node()
        })
    }

    /// exp(it) / sum(exp(it)) along an axis, safe for large numbers.
    pub fn softmax(self, axis: isize) -> Tensor<'g> {
        self.wide(|x| {
            let powers = (x - x.reduce_kept(Reduction::Maximum, [axis])).exp();
            powers * powers.reduce_kept(Reduction::Sum, [axis]).reciprocal()
        })
    }

    /// The logarithm of [`softmax`](Tensor::softmax).
    pub fn log_softmax(self, axis: isize) -> Tensor<'g> {
        self.wide(|x| {
            let shifted = x - x.reduce_kept(Reduction::Maximum, [axis]);
            shifted - shifted.exp().reduce_kept(Reduction::Sum, [axis]).log()
        })
    }
}
