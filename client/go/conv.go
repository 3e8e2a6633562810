package kiln

import (
	"slices"
)

// Conv2D says how windows lie on an image; zero is stride 1, no padding.
type Conv2D struct {
	Stride, Padding [2]int64
}

// Conv2D slides a weight (out channels, in channels, height, width) over images (batch, channels, height, width).
func (t Tensor) Conv2D(weight Tensor, how Conv2D) Tensor {
	g := t.graph
	if g.failed != nil || !g.owns("Conv2D", weight) {
		return Tensor{graph: g}
	}
	if len(t.shape) != 4 || len(weight.shape) != 4 || t.shape[1] != weight.shape[1] {
		return g.wrongShape(
			"Conv2D",
			"images are (batch, channels, height, width) and a weight (out, channels, height, width), not %v and %v",
			t.shape,
			weight.shape,
		)
	}
	out, in := weight.shape[0], weight.shape[1]
	high, wide := weight.shape[2], weight.shape[3]
	rows, columns := how.Padding[0], how.Padding[1]
	x := t.Pad(0, [2]int64{}, [2]int64{}, [2]int64{rows, rows}, [2]int64{columns, columns})
	x = x.windows(2, high, max(1, how.Stride[0])).windows(3, wide, max(1, how.Stride[1]))
	if g.failed != nil {
		return x
	}
	// patches (n, 1, oh, ow, c, kh, kw) · weight (1, o, 1, 1, c, kh, kw), summed over the last three.
	n, oh, ow := x.shape[0], x.shape[2], x.shape[3]
	patches := x.Permute(0, 2, 3, 1, 4, 5).Reshape(n, 1, oh, ow, in, high, wide)
	return patches.Mul(weight.Reshape(1, out, 1, 1, in, high, wide)).Sum(-3, -2, -1)
}

// MaxPool2D is the greatest of each window of images, which lie side by side.
func (t Tensor) MaxPool2D(high, wide int64) Tensor {
	if t.graph.failed == nil && len(t.shape) != 4 {
		return t.graph.wrongShape("MaxPool2D", "images are (batch, channels, height, width), not %v", t.shape)
	}
	return t.windows(2, high, high).windows(3, wide, wide).Max(-2, -1)
}

// windows makes of one axis the windows that fit, and puts the elements of each into a new last axis.
//
// The axis is laid end to end many times and the tape cut into rows one longer than the axis: then each row begins one
// element further along. Row k, column c holds element k + c, which for every window that fits is inside the axis. The
// windows are then every stride-th column.
func (t Tensor) windows(axis int, size, stride int64) Tensor {
	if t.graph.failed != nil {
		return t
	}
	length := t.shape[axis]
	if size < 1 || size > length {
		return t.graph.wrongShape("windows", "a window of %d elements on axis %d of %v", size, axis, t.shape)
	}
	windows := (length-size)/stride + 1
	// Elements that are part of no window, so that whole strides are cut.
	padding := make([][2]int64, len(t.shape))
	padding[axis][1] = max(0, windows*stride-length)
	x := t.Pad(0, padding...)
	length += padding[axis][1]
	around := x.Shape()
	replaced := func(sizes ...int64) []int64 { return slices.Replace(slices.Clone(around), axis, axis+1, sizes...) }

	row := length + 1
	times := (size*row + length - 1) / length
	x = x.Reshape(replaced(1, length)...).Broadcast(replaced(times, length)...).Reshape(replaced(times * length)...)
	x = x.keep(axis, size*row).Reshape(replaced(size, row)...).keep(axis+1, windows*stride)
	x = x.Reshape(replaced(size, windows, stride)...).keep(axis+2, 1).Reshape(replaced(size, windows)...)
	order := []int{}
	for at := range len(around) + 1 {
		if at != axis {
			order = append(order, at)
		}
	}
	return x.Permute(append(order, axis)...)
}
