use super::{Tensor, wrong_shape};

/// How windows lie on an image: rows first.
///
/// ```
/// let same = kiln::Conv2d { padding: [1, 1], ..Default::default() };
/// assert_eq!(same.stride, [1, 1]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// How far one window is from the next.
    pub stride: [usize; 2],
    /// How many zeros stand around, on each side.
    pub padding: [usize; 2],
}

impl Default for Conv2d {
    fn default() -> Self {
        Conv2d { stride: [1, 1], padding: [0, 0] }
    }
}

impl<'g> Tensor<'g> {
    /// Slides a weight (out channels, in channels, height, width) over images (batch, channels, height, width).
    pub fn conv2d(self, weight: Tensor<'g>, how: Conv2d) -> Tensor<'g> {
        self.attempt("conv2d", |_, is| {
            let (_, its) = self.graph.known(weight)?;
            let (&[_, channels, ..], &[out, inner, high, wide]) = (&is.shape[..], &its.shape[..]) else {
                return Err(no_images(&is.shape, &its.shape));
            };
            if is.shape.len() != 4 || channels != inner {
                return Err(no_images(&is.shape, &its.shape));
            }
            let [rows, columns] = how.padding;
            let padded = self.pad([(0, 0), (0, 0), (rows, rows), (columns, columns)], 0);
            let x = padded.windows(2, high, how.stride[0]).windows(3, wide, how.stride[1]);
            // patches (n, 1, oh, ow, c, kh, kw) · weight (1, o, 1, 1, c, kh, kw), summed over the last three.
            let shape = x.shape()?;
            let (n, oh, ow) = (shape[0], shape[2], shape[3]);
            let patches = x.permute([0, 2, 3, 1, 4, 5]).reshape([n, 1, oh, ow, inner, high, wide]);
            (patches * weight.reshape([1, out, 1, 1, inner, high, wide])).sum([-3, -2, -1]).node()
        })
    }

    /// The greatest of each window of images, which lie side by side.
    pub fn max_pool2d(self, high: usize, wide: usize) -> Tensor<'g> {
        self.attempt("max_pool2d", |_, is| {
            if is.shape.len() != 4 {
                return Err(no_images(&is.shape, &[]));
            }
            self.windows(2, high, high).windows(3, wide, wide).max([-2, -1]).node()
        })
    }

    /// Makes of one axis the windows that fit, and puts the elements of each into a new last axis.
    ///
    /// The axis is laid end to end many times and the tape cut into rows one longer than the axis: then each row begins
    /// one element further along. Row k, column c holds element k + c, which for every window that fits is inside the
    /// axis. The windows are then every stride-th column.
    fn windows(self, axis: usize, size: usize, stride: usize) -> Tensor<'g> {
        self.attempt("windows", |_, is| {
            let refused = || {
                wrong_shape(format!(
                    "windows of {size} elements, each {stride} further, on axis {axis} of {:?}",
                    is.shape
                ))
            };
            let before = is.shape[axis];
            if size < 1 || size > before || stride < 1 {
                return Err(refused());
            }
            let windows = (before - size) / stride + 1;
            let taken = windows.checked_mul(stride).ok_or_else(refused)?;
            // Elements that are part of no window, so that whole strides are cut.
            let mut padding = vec![(0, 0); is.shape.len()];
            padding[axis].1 = taken.saturating_sub(before);
            let length = before + padding[axis].1;
            let row = length.checked_add(1).ok_or_else(refused)?;
            let tape = size.checked_mul(row).ok_or_else(refused)?;
            let times = tape.div_ceil(length);
            let around = |sizes: &[usize]| {
                let mut shape = is.shape.clone();
                shape.splice(axis..axis + 1, sizes.iter().copied());
                shape
            };
            let all = times.checked_mul(length).ok_or_else(refused)?;
            let x = self.pad(padding, 0).reshape(around(&[1, length])).broadcast(around(&[times, length]));
            let x = x.reshape(around(&[all])).first(axis, tape).reshape(around(&[size, row])).first(axis + 1, taken);
            let x = x.reshape(around(&[size, windows, stride])).first(axis + 2, 1).reshape(around(&[size, windows]));
            let order = (0..=is.shape.len()).filter(|at| *at != axis).chain([axis]);
            x.permute(order.collect::<Vec<usize>>()).node()
        })
    }
}

fn no_images(images: &[usize], weight: &[usize]) -> crate::Error {
    let what = "images are (batch, channels, height, width), a weight (out, channels, height, width)";
    wrong_shape(format!("{what}, not {images:?} and {weight:?}"))
}
