package kiln

import (
	"encoding/binary"

	kilnv1 "kiln/v1"
)

// The canonical bytes of a node's argument: the number of its form in UOp's oneof, and its content (proto/README.md).

func appendU32(to []byte, value uint32) []byte { return binary.LittleEndian.AppendUint32(to, value) }

func appendI64(to []byte, value int64) []byte {
	return binary.LittleEndian.AppendUint64(to, uint64(value))
}

func appendString[S string | []byte](to []byte, text S) []byte {
	return append(appendU32(to, uint32(len(text))), text...)
}

func appendStrings(to []byte, texts []string) []byte {
	to = appendU32(to, uint32(len(texts)))
	for _, text := range texts {
		to = appendString(to, text)
	}
	return to
}

func appendI64s(to []byte, values []int64) []byte {
	to = appendU32(to, uint32(len(values)))
	for _, value := range values {
		to = appendI64(to, value)
	}
	return to
}

func appendBool(to []byte, value bool) []byte {
	if value {
		return append(to, 1)
	}
	return append(to, 0)
}

func appendArgument(to []byte, node *kilnv1.UOp) ([]byte, error) {
	switch arg := node.GetArg().(type) {
	case nil:
		return append(to, 0), nil
	case *kilnv1.UOp_Constant:
		return canonical(append(to, 10), arg.Constant)
	case *kilnv1.UOp_Buffer:
		return appendBuffer(append(to, 11), arg.Buffer, node.Op), nil
	case *kilnv1.UOp_Axes:
		return appendI64s(append(to, 12), arg.Axes.GetAxis()), nil
	case *kilnv1.UOp_Flip:
		to = appendU32(append(to, 13), uint32(len(arg.Flip.GetAxis())))
		for _, flipped := range arg.Flip.GetAxis() {
			to = appendBool(to, flipped)
		}
		return to, nil
	case *kilnv1.UOp_Reduce:
		to, err := appendReduction(append(to, 14), arg.Reduce.GetOp())
		return appendI64s(to, arg.Reduce.GetAxis()), err
	case *kilnv1.UOp_Pad:
		if fill := arg.Pad.GetFill(); fill != nil && !fill.GetInvalid() {
			return canonical(append(to, 15), fill)
		}
		return append(to, 0), nil
	case *kilnv1.UOp_CastTo:
		return appendU32(append(to, 16), uint32(arg.CastTo)), nil
	case *kilnv1.UOp_Index:
		return appendI64(append(to, 17), arg.Index), nil
	case *kilnv1.UOp_Load:
		if len(arg.Load.GetDevice()) == 0 && arg.Load.GetAddrspace() == 0 {
			return append(to, 0), nil
		}
		return appendU32(appendStrings(append(to, 18), arg.Load.GetDevice()), uint32(arg.Load.GetAddrspace())), nil
	case *kilnv1.UOp_Range:
		return appendU32(appendI64s(append(to, 19), arg.Range.GetAxisId()), uint32(arg.Range.GetType())), nil
	case *kilnv1.UOp_Special:
		return appendString(append(to, 20), arg.Special.GetName()), nil
	case *kilnv1.UOp_Text:
		return appendString(append(to, 23), arg.Text), nil
	case *kilnv1.UOp_Data:
		return appendString(append(to, 24), arg.Data), nil
	case *kilnv1.UOp_AllReduce:
		to, err := appendReduction(append(to, 26), arg.AllReduce.GetOp())
		return appendStrings(to, arg.AllReduce.GetDevice()), err
	}
	return appendOfKernels(to, node)
}

// appendOfKernels is for what only programs by hand and older graphs have.
func appendOfKernels(to []byte, node *kilnv1.UOp) ([]byte, error) {
	switch arg := node.GetArg().(type) {
	case *kilnv1.UOp_Kernel:
		to = appendU32(append(to, 21), uint32(len(arg.Kernel.GetOpts())))
		for _, opt := range arg.Kernel.GetOpts() {
			to = appendOpt(to, opt)
		}
		return appendBool(to, arg.Kernel.GetDontUseLocals()), nil
	case *kilnv1.UOp_Wmma:
		return appendWmma(append(to, 22), arg.Wmma), nil
	case *kilnv1.UOp_View:
		to = appendU32(append(to, 25), uint32(len(arg.View.GetView())))
		for _, view := range arg.View.GetView() {
			to = appendI64(appendI64s(appendI64s(to, view.GetShape()), view.GetStride()), view.GetOffset())
			to = appendI64s(appendI64s(to, view.GetMaskBegin()), view.GetMaskEnd())
		}
		return to, nil
	case *kilnv1.UOp_Opt:
		return appendOpt(append(to, 27), arg.Opt), nil
	}
	return nil, badArgument("an argument of a form that this package does not know")
}

func appendOpt(to []byte, opt *kilnv1.OptOp) []byte {
	return appendI64s(appendI64(appendU32(to, uint32(opt.GetKind())), opt.GetAxis()), opt.GetArg())
}

func appendWmma(to []byte, arg *kilnv1.WmmaArg) []byte {
	to = appendI64(appendI64(appendI64(to, arg.GetN()), arg.GetM()), arg.GetK())
	to = appendI64(appendU32(appendU32(to, uint32(arg.GetDtypeIn())), uint32(arg.GetDtypeOut())), arg.GetThreads())
	to = appendU32(to, uint32(len(arg.GetUpcastAxes())))
	for _, axes := range arg.GetUpcastAxes() {
		to = appendI64s(to, axes.GetAxis())
	}
	return appendI64s(to, arg.GetReduceAxes())
}

func appendReduction(to []byte, op kilnv1.Op) ([]byte, error) {
	if !isOp(op) {
		return nil, badArgument("op %d of the reduction is unknown", op)
	}
	return appendString(to, op.String()), nil
}

func appendBuffer(to []byte, arg *kilnv1.BufferArg, op kilnv1.Op) []byte {
	space := arg.GetAddrspace()
	if space == 0 {
		switch op {
		case kilnv1.Op_DEFINE_LOCAL:
			space = kilnv1.AddrSpace_LOCAL
		case kilnv1.Op_DEFINE_REG, kilnv1.Op_DEFINE_ACC:
			space = kilnv1.AddrSpace_REG
		case kilnv1.Op_DEFINE_VAR:
			space = kilnv1.AddrSpace_ALU
		default:
			space = kilnv1.AddrSpace_GLOBAL
		}
	}
	name := ""
	if space == kilnv1.AddrSpace_ALU {
		name = arg.GetName()
	}
	to = appendU32(appendU32(to, arg.GetSlot()), uint32(arg.GetDtype()))
	to = appendString(appendU32(appendStrings(to, arg.GetDevice()), uint32(space)), name)
	for _, bound := range []*int64{arg.MinValue, arg.MaxValue} {
		to = appendBool(to, bound != nil)
		if bound != nil {
			to = appendI64(to, *bound)
		}
	}
	return to
}
