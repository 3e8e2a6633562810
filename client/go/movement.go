package kiln

import (
	"slices"

	kilnv1 "kiln/v1"
)

// What moves elements and computes none.

// moved is an op whose sources are the tensor and shapes.
func (t Tensor) moved(op kilnv1.Op, shape []int64, arg *kilnv1.PadArg, shapes ...[]int64) Tensor {
	if t.graph.failed != nil {
		return t
	}
	uop := &kilnv1.UOp{Op: op, Src: []uint32{t.node}}
	for _, one := range shapes {
		uop.Src = append(uop.Src, t.graph.shapeNode(one))
	}
	if arg != nil {
		uop.Arg = &kilnv1.UOp_Pad{Pad: arg}
	}
	return t.graph.tensor(t.dtype, shape, uop)
}

func count(shape []int64) int64 {
	total := int64(1)
	for _, size := range shape {
		total *= size
	}
	return total
}

// axis counts from the end if it is negative; false for none of t's.
func (t Tensor) axis(function string, axis int) (int, bool) {
	if axis < -len(t.shape) || axis >= len(t.shape) {
		t.graph.wrongShape(function, "there is no axis %d in a shape of %d", axis, len(t.shape))
		return 0, false
	}
	return (axis + len(t.shape)) % len(t.shape), true
}

// Reshape is t's elements, row-major, in another shape; one size may be -1.
func (t Tensor) Reshape(shape ...int64) Tensor {
	if t.graph.failed != nil {
		return t
	}
	sizes := slices.Clone(shape)
	if at := slices.Index(sizes, -1); at >= 0 {
		sizes[at] = 1
		if rest := count(sizes); rest > 0 {
			sizes[at] = count(t.shape) / rest
		}
	}
	if _, ok := byteCount(t.dtype, sizes); !ok || count(sizes) != count(t.shape) {
		return t.graph.wrongShape("Reshape", "%v does not become %v", t.shape, shape)
	}
	if slices.Equal(sizes, t.shape) {
		return t
	}
	return t.moved(kilnv1.Op_RESHAPE, sizes, nil, sizes)
}

// Broadcast repeats axes of size 1, and adds new ones in front.
func (t Tensor) Broadcast(shape ...int64) Tensor {
	if t.graph.failed != nil || slices.Equal(shape, t.shape) {
		return t
	}
	if all, ok := broadcast(t.shape, shape); !ok || !slices.Equal(all, shape) {
		return t.graph.wrongShape("Broadcast", "%v to %v: only axes of size 1 stretch", t.shape, shape)
	}
	ones := slices.Repeat([]int64{1}, len(shape)-len(t.shape))
	t = t.Reshape(append(ones, t.shape...)...)
	if slices.Equal(shape, t.shape) {
		return t
	}
	return t.moved(kilnv1.Op_EXPAND, shape, nil, shape)
}

// Permute puts axes in another order.
func (t Tensor) Permute(order ...int) Tensor {
	if t.graph.failed != nil {
		return t
	}
	sorted := slices.Sorted(slices.Values(order))
	arg, shape := &kilnv1.AxesArg{}, []int64{}
	for at, axis := range order {
		if len(order) != len(t.shape) || sorted[at] != at {
			return t.graph.fail(
				kilnv1.ErrorCode_BAD_ARGUMENT,
				"Permute",
				"%v is no order of %d axes",
				order,
				len(t.shape),
			)
		}
		arg.Axis = append(arg.Axis, int64(axis))
		shape = append(shape, t.shape[axis])
	}
	if slices.IsSorted(order) {
		return t
	}
	return t.graph.tensor(
		t.dtype,
		shape,
		&kilnv1.UOp{Op: kilnv1.Op_PERMUTE, Src: []uint32{t.node}, Arg: &kilnv1.UOp_Axes{Axes: arg}},
	)
}

// Transpose exchanges the last two axes.
func (t Tensor) Transpose() Tensor {
	last := len(t.shape) - 1
	if last < 1 {
		return t.graph.wrongShape("Transpose", "of %v: two axes are exchanged", t.shape)
	}
	order := []int{}
	for axis := range t.shape {
		order = append(order, axis)
	}
	order[last-1], order[last] = last, last-1
	return t.Permute(order...)
}

// Flip turns the order of elements round along an axis.
func (t Tensor) Flip(axis int) Tensor {
	at, ok := t.axis("Flip", axis)
	if !ok {
		return t
	}
	arg := &kilnv1.FlipArg{Axis: make([]bool, len(t.shape))}
	arg.Axis[at] = true
	return t.graph.tensor(
		t.dtype,
		t.shape,
		&kilnv1.UOp{Op: kilnv1.Op_FLIP, Src: []uint32{t.node}, Arg: &kilnv1.UOp_Flip{Flip: arg}},
	)
}

// Pad puts elements of a number around: {before, after} for each axis.
func (t Tensor) Pad(value Operand, widths ...[2]int64) Tensor {
	if t.graph.failed != nil {
		return t
	}
	offset, shape := []int64{}, slices.Clone(t.shape)
	for at, width := range widths {
		if len(widths) != len(t.shape) || width[0] < 0 || width[1] < 0 {
			return t.graph.wrongShape("Pad", "%v for a tensor of %v: one pair of 0 or more an axis", widths, t.shape)
		}
		offset, shape[at] = append(offset, width[0]), shape[at]+width[0]+width[1]
	}
	if slices.Equal(shape, t.shape) {
		return t
	}
	fill := t.graph.Scalar(t.dtype, value)
	if t.graph.failed != nil {
		return t
	}
	return t.moved(kilnv1.Op_PAD, shape, &kilnv1.PadArg{Fill: t.graph.nodes[fill.node].GetConstant()}, offset, shape)
}

// Shrink is the box {begin, end} of each axis.
func (t Tensor) Shrink(ranges ...[2]int64) Tensor {
	if t.graph.failed != nil {
		return t
	}
	offset, shape := []int64{}, slices.Clone(t.shape)
	for at, row := range ranges {
		if len(ranges) != len(t.shape) || row[0] < 0 || row[1] < row[0] || row[1] > t.shape[at] {
			return t.graph.wrongShape("Shrink", "%v of a tensor of %v: one box inside of it an axis", ranges, t.shape)
		}
		offset, shape[at] = append(offset, row[0]), row[1]-row[0]
	}
	if slices.Equal(shape, t.shape) {
		return t
	}
	return t.moved(kilnv1.Op_SHRINK, shape, nil, offset, shape)
}

// keep is the first elements of one axis.
func (t Tensor) keep(axis int, most int64) Tensor {
	ranges := make([][2]int64, len(t.shape))
	for at, size := range t.shape {
		ranges[at] = [2]int64{0, size}
	}
	if t.graph.failed == nil {
		ranges[axis][1] = most
	}
	return t.Shrink(ranges...)
}
