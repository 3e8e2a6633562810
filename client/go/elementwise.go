package kiln

import (
	"math"
	"slices"

	kilnv1 "kiln/v1"
)

// Operand is a Tensor of the same graph, or a number: a bool, an int or a float64, which takes the dtype of the tensor
// that it meets. Tensors that meet have one dtype (Cast makes it so), and shapes that broadcast as numpy's do.
type Operand any

// Scalar is a number as a tensor of no axes.
func (g *Graph) Scalar(dtype DType, value Operand) Tensor {
	arg := &kilnv1.ConstArg{Dtype: dtype.message()}
	switch number := value.(type) {
	case bool:
		arg.Value = &kilnv1.ConstArg_B{B: number}
	case int:
		arg.Value = &kilnv1.ConstArg_I{I: int64(number)}
	case int64:
		arg.Value = &kilnv1.ConstArg_I{I: number}
	case float64:
		arg.Value = &kilnv1.ConstArg_F{F: number}
	default:
		return g.fail(
			kilnv1.ErrorCode_BAD_ARGUMENT,
			"Scalar",
			"%T is neither a Tensor nor a bool, an int or a float64",
			value,
		)
	}
	if _, err := canonical(nil, arg); err != nil {
		return g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, "Scalar", "%s does not hold %v", dtype, value)
	}
	return g.tensor(dtype, nil, &kilnv1.UOp{Op: kilnv1.Op_CONST, Arg: &kilnv1.UOp_Constant{Constant: arg}})
}

// Full is an array of one number.
func (g *Graph) Full(dtype DType, value Operand, shape ...int64) Tensor {
	return g.Scalar(dtype, value).Broadcast(shape...)
}

// Arange is 0, 1, …, stop - 1.
func (g *Graph) Arange(dtype DType, stop int64) Tensor {
	if stop < 0 || stop > math.MaxInt32 {
		return g.fail(kilnv1.ErrorCode_BAD_ARGUMENT, "Arange", "of %d numbers", stop)
	}
	// A number is the sum of its binary digits, and each digit is an axis of two.
	total, count := g.Full(dtype, 0, 1), int64(1)
	for ; count < stop; count *= 2 {
		pair := g.Scalar(dtype, 0).stack(g.Scalar(dtype, int64(count)))
		total = pair.Reshape(2, 1).Add(total.Reshape(1, count)).Reshape(2 * count)
	}
	return total.Shrink([2]int64{0, stop})
}

func (t Tensor) stack(other Tensor) Tensor {
	shape := append([]int64{2}, t.shape...)
	return t.graph.tensor(t.dtype, shape, &kilnv1.UOp{Op: kilnv1.Op_STACK, Src: []uint32{t.node, other.node}})
}

// lifted is an operand as a tensor of t's graph and dtype.
func (t Tensor) lifted(function string, operand Operand) (Tensor, bool) {
	other, is := operand.(Tensor)
	if t.graph.failed != nil {
		return t, false
	}
	if !is {
		other = t.graph.Scalar(t.dtype, operand)
	}
	if !t.graph.owns(function, other) {
		return t, false
	}
	if other.dtype != t.dtype {
		t.graph.fail(kilnv1.ErrorCode_DTYPE_MISMATCH, function, "%s and %s: Cast one", t.dtype, other.dtype)
		return t, false
	}
	return other, true
}

// binary is an op of two tensors, which gives their dtype or, if it compares, bools.
func (t Tensor) binary(function string, op kilnv1.Op, operand Operand, compares bool) Tensor {
	other, ok := t.lifted(function, operand)
	if !ok {
		return Tensor{graph: t.graph}
	}
	shape, ok := broadcast(t.shape, other.shape)
	if !ok {
		return t.graph.wrongShape(function, "%v and %v do not broadcast", t.shape, other.shape)
	}
	a, b := t.Broadcast(shape...), other.Broadcast(shape...)
	dtype := t.dtype
	if compares {
		dtype = Bool
	}
	return t.graph.tensor(dtype, shape, &kilnv1.UOp{Op: op, Src: []uint32{a.node, b.node}})
}

func broadcast(a, b []int64) ([]int64, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	shape := slices.Clone(a)
	for at, size := range b {
		place := len(a) - len(b) + at
		switch {
		case shape[place] == 1:
			shape[place] = size
		case size != 1 && size != shape[place]:
			return nil, false
		}
	}
	return shape, true
}

// Add is t + operand.
func (t Tensor) Add(operand Operand) Tensor { return t.binary("Add", kilnv1.Op_ADD, operand, false) }

// Sub is t - operand.
func (t Tensor) Sub(operand Operand) Tensor { return t.binary("Sub", kilnv1.Op_SUB, operand, false) }

// Mul is t · operand.
func (t Tensor) Mul(operand Operand) Tensor { return t.binary("Mul", kilnv1.Op_MUL, operand, false) }

// Div is t / operand: of floats the quotient, of integers the greatest that is not above it.
func (t Tensor) Div(operand Operand) Tensor {
	if t.dtype.IsFloat() {
		return t.binary("Div", kilnv1.Op_FDIV, operand, false)
	}
	return t.binary("Div", kilnv1.Op_FLOORDIV, operand, false)
}

// Maximum is the greater of both; NaN if one of them is.
func (t Tensor) Maximum(operand Operand) Tensor {
	return t.binary("Maximum", kilnv1.Op_MAX, operand, false)
}

// Less is whether t < operand.
func (t Tensor) Less(operand Operand) Tensor { return t.binary("Less", kilnv1.Op_CMPLT, operand, true) }

// Greater is whether t > operand.
func (t Tensor) Greater(operand Operand) Tensor {
	return t.binary("Greater", kilnv1.Op_CMPGT, operand, true)
}

// Equal is whether t = operand.
func (t Tensor) Equal(operand Operand) Tensor {
	return t.binary("Equal", kilnv1.Op_CMPEQ, operand, true)
}

// Where is `then` where t, a tensor of bools, is true, and `otherwise` elsewhere; one of both is a Tensor.
func (t Tensor) Where(then, otherwise Operand) Tensor {
	like, is := then.(Tensor)
	if !is {
		if like, is = otherwise.(Tensor); !is {
			return t.graph.fail(kilnv1.ErrorCode_BAD_ARGUMENT, "Where", "two numbers: make one of them with Scalar")
		}
	}
	a, ok := like.lifted("Where", then)
	b, also := like.lifted("Where", otherwise)
	if !ok || !also || !t.graph.owns("Where", a) {
		return Tensor{graph: t.graph}
	}
	if t.dtype != Bool {
		return t.graph.fail(kilnv1.ErrorCode_DTYPE_MISMATCH, "Where", "the condition is %s, not bool", t.dtype)
	}
	shape, ok := broadcast(a.shape, b.shape)
	if ok {
		shape, ok = broadcast(t.shape, shape)
	}
	if !ok {
		return t.graph.wrongShape("Where", "%v, %v and %v do not broadcast", t.shape, a.shape, b.shape)
	}
	sources := []uint32{t.Broadcast(shape...).node, a.Broadcast(shape...).node, b.Broadcast(shape...).node}
	return t.graph.tensor(a.dtype, shape, &kilnv1.UOp{Op: kilnv1.Op_WHERE, Src: sources})
}

// Cast converts to another dtype.
func (t Tensor) Cast(dtype DType) Tensor {
	if t.graph.failed != nil || t.dtype == dtype {
		return t
	}
	return t.graph.tensor(
		dtype,
		t.shape,
		&kilnv1.UOp{Op: kilnv1.Op_CAST, Src: []uint32{t.node}, Arg: &kilnv1.UOp_CastTo{CastTo: dtype.message()}},
	)
}

// floats is t; a mistake unless its elements are floats.
func (t Tensor) floats(function string) Tensor {
	if t.graph.failed == nil && !t.dtype.IsFloat() {
		return t.graph.fail(kilnv1.ErrorCode_DTYPE_MISMATCH, function, "of %s: Cast it to a float", t.dtype)
	}
	return t
}

// float is an op of one float.
func (t Tensor) float(function string, op kilnv1.Op) Tensor {
	t = t.floats(function)
	return t.graph.tensor(t.dtype, t.shape, &kilnv1.UOp{Op: op, Src: []uint32{t.node}})
}

// wide computes floats of less than 32 bits in 32, and rounds once.
func (t Tensor) wide(of func(Tensor) Tensor) Tensor {
	if t.dtype.IsFloat() && t.dtype.Size() < 4 {
		return of(t.Cast(Float32)).Cast(t.dtype)
	}
	return of(t)
}

// Neg is -t.
func (t Tensor) Neg() Tensor {
	return t.graph.tensor(t.dtype, t.shape, &kilnv1.UOp{Op: kilnv1.Op_NEG, Src: []uint32{t.node}})
}

// Reciprocal is 1 / t.
func (t Tensor) Reciprocal() Tensor { return t.float("Reciprocal", kilnv1.Op_RECIPROCAL) }

// Sqrt is the square root.
func (t Tensor) Sqrt() Tensor { return t.float("Sqrt", kilnv1.Op_SQRT) }

// Sin is the sine.
func (t Tensor) Sin() Tensor { return t.float("Sin", kilnv1.Op_SIN) }

// Exp is e to the power of t.
func (t Tensor) Exp() Tensor {
	return t.floats("Exp").wide(func(x Tensor) Tensor { return x.Mul(math.Log2E).float("Exp", kilnv1.Op_EXP2) })
}

// Log is the natural logarithm.
func (t Tensor) Log() Tensor {
	return t.wide(func(x Tensor) Tensor { return x.float("Log", kilnv1.Op_LOG2).Mul(math.Ln2) })
}

// Relu is t where it is above 0, else 0.
func (t Tensor) Relu() Tensor { return t.Maximum(0) }

// Detach is t, through which no gradient flows.
func (t Tensor) Detach() Tensor {
	return t.graph.tensor(t.dtype, t.shape, &kilnv1.UOp{Op: kilnv1.Op_DETACH, Src: []uint32{t.node}})
}
