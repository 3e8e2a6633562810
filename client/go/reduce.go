package kiln

import (
	"slices"

	kilnv1 "kiln/v1"
)

// Reduce combines along axes, which go away; without any, along all.
func (t Tensor) Reduce(op Reduction, axes ...int) Tensor {
	kept := t.reduceKept(op, axes)
	if t.graph.failed != nil {
		return kept
	}
	shape := []int64{}
	for at, size := range t.shape {
		if !slices.Contains(t.axes(axes), at) {
			shape = append(shape, size)
		}
	}
	return kept.Reshape(shape...)
}

// axes are all of them for none, and count from the end if they are negative.
func (t Tensor) axes(axes []int) []int {
	var made []int
	for at := range t.shape {
		if len(axes) == 0 || slices.Contains(axes, at) || slices.Contains(axes, at-len(t.shape)) {
			made = append(made, at)
		}
	}
	return made
}

// reduceKept keeps the axes, with size 1. Floats of less than 32 bits are added and multiplied in 32, and rounded once.
func (t Tensor) reduceKept(op Reduction, axes []int) Tensor {
	for _, axis := range axes {
		if _, ok := t.axis("Reduce", axis); !ok {
			return t
		}
	}
	if op == Maximum {
		return t.reduced(op, axes)
	}
	return t.wide(func(x Tensor) Tensor { return x.reduced(op, axes) })
}

func (t Tensor) reduced(op Reduction, axes []int) Tensor {
	arg, shape := &kilnv1.ReduceArg{Op: kilnv1.Op(op)}, slices.Clone(t.shape)
	for _, at := range t.axes(axes) {
		arg.Axis, shape[at] = append(arg.Axis, int64(at)), 1
	}
	if len(arg.Axis) == 0 || t.graph.failed != nil {
		return t
	}
	return t.graph.tensor(
		t.dtype,
		shape,
		&kilnv1.UOp{Op: kilnv1.Op_REDUCE, Src: []uint32{t.node}, Arg: &kilnv1.UOp_Reduce{Reduce: arg}},
	)
}

// Sum is the sum along axes, in t's dtype; without any, along all.
func (t Tensor) Sum(axes ...int) Tensor { return t.Reduce(Sum, axes...) }

// Max is the greatest along axes; without any, along all.
func (t Tensor) Max(axes ...int) Tensor { return t.Reduce(Maximum, axes...) }

// Mean is the mean of floats along axes; without any, along all.
func (t Tensor) Mean(axes ...int) Tensor {
	return t.wide(func(x Tensor) Tensor {
		total := x.Sum(axes...)
		if t.graph.failed != nil {
			return total
		}
		return total.Mul(float64(count(total.shape)) / float64(count(t.shape)))
	})
}

// ArgMax is the place (int32) of the greatest along an axis, the first of several; of the first NaN if there is one.
func (t Tensor) ArgMax(axis int) Tensor {
	at, ok := t.axis("ArgMax", axis)
	if !ok || t.graph.failed != nil {
		return t
	}
	// Counted from the end, the first place is the greatest.
	size := t.shape[at]
	along := slices.Repeat([]int64{1}, len(t.shape))
	along[at] = size
	fromEnd := t.graph.Arange(Int32, size).Neg().Add(size).Reshape(along...)
	places := t.Equal(t.reduceKept(Maximum, []int{at})).Where(fromEnd, 0)
	if t.dtype.IsFloat() { // what is not even itself is NaN, and no greatest is equal to it
		places = t.Equal(t).Where(places, fromEnd)
	}
	return places.Max(at).Neg().Add(size)
}

// MatMul is the matrix product of the last two axes; those before broadcast.
func (t Tensor) MatMul(other Tensor) Tensor {
	g := t.graph
	if g.failed != nil || !g.owns("MatMul", other) {
		return Tensor{graph: g}
	}
	n, m := len(t.shape), len(other.shape)
	if n < 2 || m < 2 || t.shape[n-1] != other.shape[m-2] {
		return g.wrongShape(
			"MatMul",
			"%v and %v: the last axis of one is not the last but one of the other",
			t.shape,
			other.shape,
		)
	}
	rows := t.Reshape(slices.Insert(slices.Clone(t.shape), n-1, 1)...)
	turned := other.Transpose()
	columns := turned.Reshape(slices.Insert(turned.Shape(), m-2, 1)...)
	if t.dtype.IsFloat() && t.dtype.Size() < 4 && t.dtype == other.dtype {
		return rows.Cast(Float32).Mul(columns.Cast(Float32)).Sum(-1).Cast(t.dtype)
	}
	return rows.Mul(columns).Sum(-1)
}

// Softmax is exp(t) / sum(exp(t)) along an axis, safe for large t.
func (t Tensor) Softmax(axis int) Tensor {
	return t.wide(func(x Tensor) Tensor {
		powers := x.Sub(x.reduceKept(Maximum, []int{axis})).Exp()
		return powers.Mul(powers.reduceKept(Sum, []int{axis}).Reciprocal())
	})
}

// LogSoftmax is the logarithm of Softmax.
func (t Tensor) LogSoftmax(axis int) Tensor {
	return t.wide(func(x Tensor) Tensor {
		shifted := x.Sub(x.reduceKept(Maximum, []int{axis}))
		return shifted.Sub(shifted.Exp().reduceKept(Sum, []int{axis}).Log())
	})
}
