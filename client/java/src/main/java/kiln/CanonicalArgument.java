package kiln;

import kiln.v1.AddrSpace;
import kiln.v1.AxesArg;
import kiln.v1.BufferArg;
import kiln.v1.LoadArg;
import kiln.v1.Op;
import kiln.v1.OptOp;
import kiln.v1.UOp;
import kiln.v1.ViewArg;
import kiln.v1.WmmaArg;

/**
 * The canonical bytes of a node's argument: the number of its form in UOp's oneof, and its content.
 */
final class CanonicalArgument {
    private CanonicalArgument() {}

    static void write(CanonicalBytes to, UOp node) {
        int form = node.getArgCase().getNumber();
        switch (node.getArgCase()) {
            case ARG_NOT_SET -> to.u8(0);
            case CONSTANT -> CanonicalConstant.write(to.u8(form), node.getConstant());
            case BUFFER -> writeBuffer(to.u8(form), node.getBuffer(), node.getOp());
            case AXES -> to.u8(form).i64s(node.getAxes().getAxisList());
            case FLIP -> {
                to.u8(form).u32(node.getFlip().getAxisCount());
                node.getFlip().getAxisList().forEach(to::bool);
            }
            case REDUCE -> {
                writeReduction(
                        to.u8(form), node.getReduce().getOp(), node.getReduce().getOpValue());
                to.i64s(node.getReduce().getAxisList());
            }
            case PAD -> {
                if (node.getPad().hasFill() && !node.getPad().getFill().getInvalid()) {
                    CanonicalConstant.write(to.u8(form), node.getPad().getFill());
                } else {
                    to.u8(0);
                }
            }
            case CAST_TO -> to.u8(form).u32(node.getCastToValue());
            case INDEX -> to.u8(form).i64(node.getIndex());
            case LOAD -> writeLoad(to, form, node.getLoad());
            case RANGE ->
                    to.u8(form)
                            .i64s(node.getRange().getAxisIdList())
                            .u32(node.getRange().getTypeValue());
            case SPECIAL -> to.u8(form).string(node.getSpecial().getNameBytes());
            case TEXT -> to.u8(form).string(node.getTextBytes());
            case DATA -> to.u8(form).string(node.getData());
            case ALL_REDUCE -> {
                writeReduction(
                        to.u8(form), node.getAllReduce().getOp(), node.getAllReduce().getOpValue());
                to.strings(node.getAllReduce().getDeviceList());
            }
            case KERNEL -> {
                to.u8(form).u32(node.getKernel().getOptsCount());
                node.getKernel().getOptsList().forEach(opt -> writeOpt(to, opt));
                to.bool(node.getKernel().getDontUseLocals());
            }
            case WMMA -> writeWmma(to.u8(form), node.getWmma());
            case VIEW -> {
                to.u8(form).u32(node.getView().getViewCount());
                node.getView().getViewList().forEach(view -> writeView(to, view));
            }
            case OPT -> writeOpt(to.u8(form), node.getOpt());
        }
    }

    private static void writeLoad(CanonicalBytes to, int form, LoadArg load) {
        if (load.getDeviceCount() == 0 && load.getAddrspaceValue() == 0) {
            to.u8(0);
        } else {
            to.u8(form).strings(load.getDeviceList()).u32(load.getAddrspaceValue());
        }
    }

    private static void writeReduction(CanonicalBytes to, Op op, int number) {
        if (!GraphHash.isKnown(op)) {
            throw Failures.badArgument("op %d of the reduction is unknown", number);
        }
        to.string(op.name());
    }

    private static void writeBuffer(CanonicalBytes to, BufferArg arg, Op op) {
        int space =
                arg.getAddrspaceValue() == 0 ? spaceOf(op).getNumber() : arg.getAddrspaceValue();
        to.u32(arg.getSlot()).u32(arg.getDtypeValue()).strings(arg.getDeviceList()).u32(space);
        to.string(space == AddrSpace.ALU_VALUE ? arg.getName() : "");
        to.bool(arg.hasMinValue());
        if (arg.hasMinValue()) {
            to.i64(arg.getMinValue());
        }
        to.bool(arg.hasMaxValue());
        if (arg.hasMaxValue()) {
            to.i64(arg.getMaxValue());
        }
    }

    private static AddrSpace spaceOf(Op op) {
        return switch (op) {
            case DEFINE_LOCAL -> AddrSpace.LOCAL;
            case DEFINE_REG, DEFINE_ACC -> AddrSpace.REG;
            case DEFINE_VAR -> AddrSpace.ALU;
            default -> AddrSpace.GLOBAL;
        };
    }

    private static void writeOpt(CanonicalBytes to, OptOp opt) {
        to.u32(opt.getKindValue()).i64(opt.getAxis()).i64s(opt.getArgList());
    }

    private static void writeWmma(CanonicalBytes to, WmmaArg arg) {
        to.i64(arg.getN()).i64(arg.getM()).i64(arg.getK());
        to.u32(arg.getDtypeInValue()).u32(arg.getDtypeOutValue()).i64(arg.getThreads());
        to.u32(arg.getUpcastAxesCount());
        for (AxesArg axes : arg.getUpcastAxesList()) {
            to.i64s(axes.getAxisList());
        }
        to.i64s(arg.getReduceAxesList());
    }

    private static void writeView(CanonicalBytes to, ViewArg.View view) {
        to.i64s(view.getShapeList()).i64s(view.getStrideList()).i64(view.getOffset());
        to.i64s(view.getMaskBeginList()).i64s(view.getMaskEndList());
    }
}
