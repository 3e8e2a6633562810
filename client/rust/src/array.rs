use std::borrow::Cow;

use bytes::Bytes;

use crate::{
    DType, Element, Result,
    dtype::{byte_count, shape_of, wire_shape},
    error::{bad_argument, bad_server},
    v1,
};

/// An array in this process: row-major, little-endian, without padding. A copy of it shares its memory.
///
/// ```
/// use kiln::Array;
///
/// let array = Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(array.shape(), [2, 2]);
/// assert_eq!(array.values::<f32>()?.as_ref(), [1.0, 2.0, 3.0, 4.0]);
/// assert!(array.values::<i32>().is_err());
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    data: Bytes,
}

impl Array {
    /// An array of bytes; an error if they are not as many as its shape says.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>, data: impl Into<Bytes>) -> Result<Array> {
        let (shape, data) = (shape.into(), data.into());
        if byte_count(dtype, &shape) != Some(data.len()) {
            return Err(bad_argument(format!("{} bytes are no array of {dtype} and shape {shape:?}", data.len())));
        }
        Ok(Array { dtype, shape, data })
    }

    /// An array of a shape, in the vector's memory.
    pub fn from_vec<T: Element>(values: Vec<T>, shape: impl Into<Vec<usize>>) -> Result<Array> {
        Array::new(T::DTYPE, shape, T::into_bytes(values))
    }

    /// An array of a shape, with a copy of a slice.
    pub fn from_slice<T: Element>(values: &[T], shape: impl Into<Vec<usize>>) -> Result<Array> {
        Array::new(T::DTYPE, shape, T::copied(values))
    }

    /// An array of no axes.
    pub fn scalar<T: Element>(value: T) -> Array {
        Array { dtype: T::DTYPE, shape: vec![], data: T::into_bytes(vec![value]) }
    }

    /// What its elements are.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size along each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.size()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Its bytes.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Its elements, in its own memory if that is aligned; an error if it is of another dtype.
    pub fn values<T: Element>(&self) -> Result<Cow<'_, [T]>> {
        if self.dtype != T::DTYPE {
            return Err(bad_argument(format!("an array of {}, not of {}", self.dtype, T::DTYPE)));
        }
        Ok(T::values(&self.data))
    }

    /// Its elements, copied.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        Ok(self.values()?.into_owned())
    }

    /// Its one element; an error if it has another number of them.
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.values()?.as_ref() {
            [value] => Ok(*value),
            values => Err(bad_argument(format!("an array of {} elements has no one element", values.len()))),
        }
    }

    /// The same elements in another shape.
    pub fn reshape(&self, shape: impl Into<Vec<usize>>) -> Result<Array> {
        Array::new(self.dtype, shape, self.data.clone())
    }

    /// A tensor of the server's.
    pub(crate) fn of_wire(said: v1::Tensor) -> Result<Array> {
        let made = DType::of_wire(said.dtype)
            .zip(shape_of(&said.shape))
            .and_then(|(dtype, shape)| Array::new(dtype, shape, said.data.clone()).ok());
        let what = || format!("gave {} bytes as dtype {} and shape {:?}", said.data.len(), said.dtype, said.shape);
        made.ok_or_else(|| bad_server(what()))
    }

    pub(crate) fn to_wire(&self) -> v1::Tensor {
        v1::Tensor { dtype: self.dtype.wire(), shape: wire_shape(&self.shape), data: self.data.clone() }
    }
}

impl<T: Element> From<Vec<T>> for Array {
    /// An array of one axis, in the vector's memory.
    fn from(values: Vec<T>) -> Array {
        Array { dtype: T::DTYPE, shape: vec![values.len()], data: T::into_bytes(values) }
    }
}

impl<T: Element> From<&[T]> for Array {
    /// An array of one axis, with a copy.
    fn from(values: &[T]) -> Array {
        Array { dtype: T::DTYPE, shape: vec![values.len()], data: T::copied(values) }
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Array {
    fn from(values: [T; N]) -> Array {
        Array::from(values.as_slice())
    }
}

#[cfg(feature = "ndarray")]
impl Array {
    /// An array of the crate ndarray; in its memory if that is in the standard order.
    pub fn from_ndarray<T: Element, D: ndarray::Dimension>(array: ndarray::Array<T, D>) -> Array {
        let shape = array.shape().to_vec();
        let values = if array.is_standard_layout() {
            let (values, offset) = array.into_raw_vec_and_offset();
            let begin = offset.unwrap_or(0);
            let data = T::into_bytes(values);
            let bytes = shape.iter().product::<usize>() * T::DTYPE.size();
            data.slice(begin * T::DTYPE.size()..begin * T::DTYPE.size() + bytes)
        } else {
            T::into_bytes(array.iter().copied().collect())
        };
        Array { dtype: T::DTYPE, shape, data: values }
    }

    /// As an array of the crate ndarray, a copy.
    pub fn to_ndarray<T: Element>(&self) -> Result<ndarray::ArrayD<T>> {
        let values = self.to_vec()?;
        ndarray::ArrayD::from_shape_vec(self.shape.as_slice(), values).map_err(|why| bad_argument(why.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::ErrorCode;

    #[test]
    fn what_is_no_array_is_refused() {
        for made in [
            Array::from_vec(vec![1i8, 2, 3], [2]),
            Array::from_vec(vec![1i8], [usize::MAX, 2]),
            Array::new(DType::Int32, [2], vec![0; 7]),
            Array::from(vec![1.0f32]).reshape([2]),
        ] {
            assert_eq!(made.unwrap_err().code(), ErrorCode::BadArgument);
        }
        assert!(Array::from_vec(Vec::<i8>::new(), [0, usize::MAX, usize::MAX]).unwrap().is_empty());
        assert_eq!(Array::from([1, 2]).item::<i32>().unwrap_err().code(), ErrorCode::BadArgument);
    }

    #[test]
    fn a_scalar_has_no_axes() {
        let array = Array::scalar(true);
        assert_eq!((array.shape(), array.item::<bool>().unwrap()), (&[][..], true));
    }

    #[test]
    fn what_a_server_gives_is_looked_at() {
        let said = |dtype, shape: &[i64], bytes| v1::Tensor { dtype, shape: shape.into(), data: vec![0; bytes].into() };
        assert_eq!(Array::of_wire(said(5, &[2], 8)).unwrap(), Array::from([0i32, 0]));
        for lie in [said(5, &[2], 7), said(5, &[-2], 8), said(99, &[2], 8), said(1, &[], 0), said(8, &[i64::MAX], 1)] {
            assert_eq!(Array::of_wire(lie).unwrap_err().code(), ErrorCode::InternalFault);
        }
    }

    #[cfg(feature = "half")]
    #[test]
    fn halves_are_elements() {
        let array = Array::from(vec![half::f16::from_f32(1.5)]);
        assert_eq!(array.values::<crate::Half>().unwrap().as_ref(), [crate::Half(0x3e00)]);
    }

    #[cfg(feature = "ndarray")]
    #[test]
    fn ndarrays_come_and_go() {
        let square = ndarray::arr2(&[[1.0f32, 2.0], [3.0, 4.0]]);
        let array = Array::from_ndarray(square.clone());
        assert_eq!(array, Array::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap());
        assert_eq!(array.to_ndarray::<f32>().unwrap(), square.clone().into_dyn());
        let turned = Array::from_ndarray(square.reversed_axes());
        assert_eq!(turned.values::<f32>().unwrap().as_ref(), [1.0, 3.0, 2.0, 4.0]);
        let row = ndarray::arr2(&[[1, 2], [3, 4]]).index_axis_move(ndarray::Axis(0), 1);
        assert_eq!(Array::from_ndarray(row), Array::from([3, 4]));
    }
}
