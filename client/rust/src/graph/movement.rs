//! What moves elements and computes none.

use std::ops::Range;

use super::{Operand, Tensor, elementwise, mistake, uop, wrong_shape};
use crate::{
    Result,
    v1::{self, ErrorCode, Op, u_op::Arg},
};

/// A size as [`Tensor::reshape`] takes it: one of them may be -1, and is then what is left.
pub trait Size: Copy {
    /// None for the size that is left; an error for what is no size.
    fn size(self) -> Result<Option<usize>>;
}

macro_rules! sizes {
    ($($number:ty),*) => {$(
        impl Size for $number {
            fn size(self) -> Result<Option<usize>> {
                if self as i128 == -1 {
                    return Ok(None);
                }
                let size = usize::try_from(self);
                size.map(Some).map_err(|_| wrong_shape(format!("{self} is no size")))
            }
        }
    )*};
}

sizes! { i32, i64, isize, u32, u64, usize }

/// The elements of a shape; None for more than can be counted.
pub(super) fn count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size)) }
}

/// An axis of so many, which counts from the end if it is negative.
pub(super) fn axis_of(axis: isize, axes: usize) -> Result<usize> {
    let from_begin = if axis < 0 { axes.checked_add_signed(axis) } else { Some(axis as usize) };
    from_begin
        .filter(|axis| *axis < axes)
        .ok_or_else(|| wrong_shape(format!("there is no axis {axis} in a shape of {axes}")))
}

impl<'g> Tensor<'g> {
    /// An op whose sources are the tensor and shapes.
    fn moved(self, op: Op, node: u32, shape: &[usize], arg: Option<Arg>, shapes: &[&[usize]]) -> Result<u32> {
        let (_, is) = self.known()?;
        let mut building = self.graph.building();
        let mut sources = vec![node];
        sources.extend(shapes.iter().map(|shape| building.shape(shape)));
        building.tensor(uop(op, sources, arg), is.dtype, shape)
    }

    /// The elements, row-major, in another shape; one size may be -1.
    pub fn reshape<S: Size>(self, shape: impl AsRef<[S]>) -> Tensor<'g> {
        self.attempt("reshape", |node, is| {
            let sizes: Vec<Option<usize>> = shape.as_ref().iter().map(|size| size.size()).collect::<Result<_>>()?;
            let total = count(&is.shape).unwrap_or(usize::MAX);
            let known: Vec<usize> = sizes.iter().flatten().copied().collect();
            let refused = || wrong_shape(format!("{:?} does not become {sizes:?}", is.shape));
            let product = count(&known).ok_or_else(refused)?;
            let shape = match sizes.len() - known.len() {
                0 => known,
                1 if product > 0 => sizes.iter().map(|size| size.unwrap_or(total / product)).collect(),
                _ => return Err(refused()),
            };
            if count(&shape) != Some(total) {
                return Err(refused());
            }
            if shape == is.shape { Ok(node) } else { self.moved(Op::Reshape, node, &shape, None, &[&shape]) }
        })
    }

    /// Repeats axes of size 1, and adds new ones in front.
    pub fn broadcast(self, shape: impl AsRef<[usize]>) -> Tensor<'g> {
        let shape = shape.as_ref();
        self.attempt("broadcast", |node, is| {
            if shape == is.shape {
                return Ok(node);
            }
            if elementwise::broadcast(&is.shape, shape).as_deref() != Some(shape) {
                return Err(wrong_shape(format!("{:?} to {shape:?}: only axes of size 1 stretch", is.shape)));
            }
            let mut ones = vec![1; shape.len() - is.shape.len()];
            ones.extend(&is.shape);
            let reshaped = self.reshape(&ones).node()?;
            if ones == shape { Ok(reshaped) } else { self.moved(Op::Expand, reshaped, shape, None, &[shape]) }
        })
    }

    /// Puts axes in another order.
    pub fn permute(self, order: impl AsRef<[usize]>) -> Tensor<'g> {
        let order = order.as_ref();
        self.attempt("permute", |node, is| {
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..is.shape.len()) {
                let message = format!("{order:?} is no order of {} axes", is.shape.len());
                return Err(mistake(ErrorCode::BadArgument, message));
            }
            if order.is_sorted() {
                return Ok(node);
            }
            let shape: Vec<usize> = order.iter().map(|axis| is.shape[*axis]).collect();
            let axis = order.iter().map(|axis| *axis as i64).collect();
            let arg = Some(Arg::Axes(v1::AxesArg { axis }));
            self.graph.building().tensor(uop(Op::Permute, [node], arg), is.dtype, &shape)
        })
    }

    /// Exchanges the last two axes.
    pub fn transpose(self) -> Tensor<'g> {
        self.attempt("transpose", |_, is| {
            let axes = is.shape.len();
            if axes < 2 {
                return Err(wrong_shape(format!("of {:?}: two axes are exchanged", is.shape)));
            }
            let mut order: Vec<usize> = (0..axes).collect();
            order.swap(axes - 2, axes - 1);
            self.permute(order).node()
        })
    }

    /// Turns the order of elements round along an axis.
    pub fn flip(self, axis: isize) -> Tensor<'g> {
        self.attempt("flip", |node, is| {
            let mut axes = vec![false; is.shape.len()];
            axes[axis_of(axis, is.shape.len())?] = true;
            let arg = Some(Arg::Flip(v1::FlipArg { axis: axes }));
            self.graph.building().tensor(uop(Op::Flip, [node], arg), is.dtype, &is.shape)
        })
    }

    /// Puts elements of a number around: so many before and after, for each axis.
    pub fn pad(self, widths: impl AsRef<[(usize, usize)]>, value: impl Into<Operand<'g>>) -> Tensor<'g> {
        let (widths, value) = (widths.as_ref(), value.into());
        self.attempt("pad", |node, is| {
            let refused = || wrong_shape(format!("{widths:?} for a tensor of {:?}: one pair an axis", is.shape));
            if widths.len() != is.shape.len() {
                return Err(refused());
            }
            let sizes = is.shape.iter().zip(widths).map(|(size, (before, after))| {
                size.checked_add(*before).and_then(|size| size.checked_add(*after)).ok_or_else(refused)
            });
            let shape: Vec<usize> = sizes.collect::<Result<_>>()?;
            if shape == is.shape {
                return Ok(node);
            }
            let offset: Vec<usize> = widths.iter().map(|(before, _)| *before).collect();
            let scalar = self.graph.try_scalar(is.dtype, value)?;
            let fill = match &self.graph.building().nodes[scalar as usize].arg {
                Some(Arg::Constant(constant)) => Some(constant.clone()),
                _ => None,
            };
            self.moved(Op::Pad, node, &shape, Some(Arg::Pad(v1::PadArg { fill })), &[&offset, &shape])
        })
    }

    /// A box: of each axis a range.
    pub fn shrink(self, ranges: impl AsRef<[Range<usize>]>) -> Tensor<'g> {
        let ranges = ranges.as_ref();
        self.attempt("shrink", |node, is| {
            let fits = |(size, range): (&usize, &Range<usize>)| range.start <= range.end && range.end <= *size;
            if ranges.len() != is.shape.len() || !is.shape.iter().zip(ranges).all(fits) {
                let message = format!("{ranges:?} of a tensor of {:?}: one range inside of it an axis", is.shape);
                return Err(wrong_shape(message));
            }
            let offset: Vec<usize> = ranges.iter().map(|range| range.start).collect();
            let shape: Vec<usize> = ranges.iter().map(|range| range.len()).collect();
            if shape == is.shape { Ok(node) } else { self.moved(Op::Shrink, node, &shape, None, &[&offset, &shape]) }
        })
    }

    /// The first elements of one axis.
    pub(super) fn first(self, axis: usize, most: usize) -> Tensor<'g> {
        self.attempt("shrink", |_, is| {
            let mut ranges: Vec<Range<usize>> = is.shape.iter().map(|size| 0..*size).collect();
            ranges[axis].end = most;
            self.shrink(ranges).node()
        })
    }
}
