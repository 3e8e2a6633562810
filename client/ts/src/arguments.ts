import type { BufferArg, OptOp, UOp } from "./gen/kiln/v1/graph_pb.js";
import { AddrSpace, Op } from "./gen/kiln/v1/graph_pb.js";
import type { CanonicalWriter } from "./canonical.js";
import { writeConstant } from "./constant.js";
import { badArgument } from "./errors.js";

export const isOp = (op: Op) => op !== Op.OP_UNSPECIFIED && Op[op] !== undefined;

/**
 * Writes the canonical bytes of a node's argument: the number of its form in UOp's oneof, and its content
 * (proto/README.md).
 */
export function writeArgument(to: CanonicalWriter, { op, arg }: UOp) {
  switch (arg.case) {
    case undefined:
      return to.u8(0);
    case "constant":
      return writeConstant(to.u8(10), arg.value);
    case "buffer":
      return writeBuffer(to.u8(11), arg.value, op);
    case "axes":
      return to.u8(12).i64s(arg.value.axis);
    case "flip":
      return to.u8(13).list(arg.value.axis, (flipped) => to.u8(flipped));
    case "reduce":
      return writeReduction(to.u8(14), arg.value.op).i64s(arg.value.axis);
    case "pad": {
      const { fill } = arg.value;
      const says = fill !== undefined && !(fill.value.case === "invalid" && fill.value.value);
      return says ? writeConstant(to.u8(15), fill) : to.u8(0);
    }
    case "castTo":
      return to.u8(16).u32(arg.value);
    case "index":
      return to.u8(17).i64(arg.value);
    case "load": {
      const { device, addrspace } = arg.value;
      return device.length || addrspace ? to.u8(18).strings(device).u32(addrspace) : to.u8(0);
    }
    case "range":
      return to.u8(19).i64s(arg.value.axisId).u32(arg.value.type);
    case "special":
      return to.u8(20).string(arg.value.name);
    case "text":
      return to.u8(23).string(arg.value);
    case "data":
      return to.u8(24).string(arg.value);
    case "allReduce":
      return writeReduction(to.u8(26), arg.value.op).strings(arg.value.device);
    default:
      return writeOfKernels(to, arg);
  }
}

type OfKernels = Extract<UOp["arg"], { case: "kernel" | "wmma" | "view" | "opt" }>;

/** What only programs by hand and older graphs have. */
function writeOfKernels(to: CanonicalWriter, arg: OfKernels) {
  switch (arg.case) {
    case "kernel":
      to.u8(21).list(arg.value.opts, (opt) => writeOpt(to, opt));
      return to.u8(arg.value.dontUseLocals);
    case "wmma": {
      const { n, m, k, dtypeIn, dtypeOut, threads, upcastAxes, reduceAxes } = arg.value;
      to.u8(22).i64(n).i64(m).i64(k).u32(dtypeIn).u32(dtypeOut).i64(threads);
      return to.list(upcastAxes, (axes) => to.i64s(axes.axis)).i64s(reduceAxes);
    }
    case "view":
      return to.u8(25).list(arg.value.view, ({ shape, stride, offset, maskBegin, maskEnd }) => {
        to.i64s(shape).i64s(stride).i64(offset).i64s(maskBegin).i64s(maskEnd);
      });
    case "opt":
      return writeOpt(to.u8(27), arg.value);
  }
}

function writeOpt(to: CanonicalWriter, { kind, axis, arg }: OptOp) {
  return to.u32(kind).i64(axis).i64s(arg);
}

function writeReduction(to: CanonicalWriter, op: Op) {
  if (!isOp(op)) {
    throw badArgument(`op ${op} of the reduction is unknown`);
  }
  return to.string(Op[op]);
}

// What an address space that is not given means.
const spaces = new Map([
  [Op.DEFINE_LOCAL, AddrSpace.LOCAL],
  [Op.DEFINE_REG, AddrSpace.REG],
  [Op.DEFINE_ACC, AddrSpace.REG],
  [Op.DEFINE_VAR, AddrSpace.ALU],
]);

function writeBuffer(
  to: CanonicalWriter,
  { slot, dtype, device, addrspace, name, minValue, maxValue }: BufferArg,
  op: Op,
) {
  const space = addrspace || (spaces.get(op) ?? AddrSpace.GLOBAL);
  to.u32(slot).u32(dtype).strings(device).u32(space);
  to.string(space === AddrSpace.ALU ? name : "");
  for (const bound of [minValue, maxValue]) {
    to.u8(bound !== undefined);
    if (bound !== undefined) {
      to.i64(bound);
    }
  }
  return to;
}
