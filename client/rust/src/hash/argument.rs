use super::Writer;
use crate::{
    Result,
    v1::{self, AddrSpace, Op, const_arg::Value, u_op::Arg},
};

/// The canonical bytes of a node's argument: the number of its form in UOp's oneof, and its content.
impl Writer {
    pub(super) fn argument(&mut self, node: &v1::UOp, op: Op) -> Result<()> {
        let Some(arg) = &node.arg else {
            self.u8(0);
            return Ok(());
        };
        match arg {
            Arg::Constant(constant) => {
                self.u8(10);
                self.constant(constant)?;
            }
            Arg::Buffer(buffer) => {
                self.u8(11);
                self.buffer(buffer, op);
            }
            Arg::Axes(axes) => {
                self.u8(12);
                self.i64s(&axes.axis);
            }
            Arg::Flip(flip) => {
                self.u8(13);
                self.count(flip.axis.len());
                flip.axis.iter().for_each(|flipped| self.u8((*flipped).into()));
            }
            Arg::Reduce(reduce) => {
                self.u8(14);
                self.reduction(reduce.op)?;
                self.i64s(&reduce.axis);
            }
            Arg::Pad(v1::PadArg { fill: Some(fill) }) if !matches!(fill.value, Some(Value::Invalid(true))) => {
                self.u8(15);
                self.constant(fill)?;
            }
            Arg::Pad(_) => self.u8(0),
            Arg::CastTo(dtype) => {
                self.u8(16);
                self.number(*dtype);
            }
            Arg::Index(index) => {
                self.u8(17);
                self.i64(*index);
            }
            Arg::Load(load) if load.device.is_empty() && load.addrspace == 0 => self.u8(0),
            Arg::Load(load) => {
                self.u8(18);
                self.strings(&load.device);
                self.number(load.addrspace);
            }
            Arg::Range(range) => {
                self.u8(19);
                self.i64s(&range.axis_id);
                self.number(range.r#type);
            }
            Arg::Special(special) => {
                self.u8(20);
                self.bytes(special.name.as_bytes());
            }
            Arg::Text(text) => {
                self.u8(23);
                self.bytes(text.as_bytes());
            }
            Arg::Data(data) => {
                self.u8(24);
                self.bytes(data);
            }
            Arg::AllReduce(all_reduce) => {
                self.u8(26);
                self.reduction(all_reduce.op)?;
                self.strings(&all_reduce.device);
            }
            Arg::Kernel(kernel) => self.kernel(kernel),
            Arg::Wmma(wmma) => self.wmma(wmma),
            Arg::View(views) => self.views(views),
            Arg::Opt(opt) => {
                self.u8(27);
                self.opt(opt);
            }
        }
        Ok(())
    }

    fn kernel(&mut self, kernel: &v1::KernelInfo) {
        self.u8(21);
        self.count(kernel.opts.len());
        kernel.opts.iter().for_each(|opt| self.opt(opt));
        self.u8(kernel.dont_use_locals.into());
    }

    fn wmma(&mut self, wmma: &v1::WmmaArg) {
        self.u8(22);
        [wmma.n, wmma.m, wmma.k].iter().for_each(|size| self.i64(*size));
        self.number(wmma.dtype_in);
        self.number(wmma.dtype_out);
        self.i64(wmma.threads);
        self.count(wmma.upcast_axes.len());
        wmma.upcast_axes.iter().for_each(|axes| self.i64s(&axes.axis));
        self.i64s(&wmma.reduce_axes);
    }

    fn views(&mut self, views: &v1::ViewArg) {
        self.u8(25);
        self.count(views.view.len());
        for view in &views.view {
            self.i64s(&view.shape);
            self.i64s(&view.stride);
            self.i64(view.offset);
            self.i64s(&view.mask_begin);
            self.i64s(&view.mask_end);
        }
    }

    fn opt(&mut self, opt: &v1::OptOp) {
        self.number(opt.kind);
        self.i64(opt.axis);
        self.i64s(&opt.arg);
    }

    fn buffer(&mut self, arg: &v1::BufferArg, op: Op) {
        let space = match (arg.addrspace, op) {
            (0, Op::DefineLocal) => AddrSpace::Local.into(),
            (0, Op::DefineReg | Op::DefineAcc) => AddrSpace::Reg.into(),
            (0, Op::DefineVar) => AddrSpace::Alu.into(),
            (0, _) => AddrSpace::Global.into(),
            (said, _) => said,
        };
        self.u32(arg.slot);
        self.number(arg.dtype);
        self.strings(&arg.device);
        self.number(space);
        let is_named = space == i32::from(AddrSpace::Alu);
        self.bytes(if is_named { arg.name.as_bytes() } else { b"" });
        for bound in [arg.min_value, arg.max_value] {
            self.u8(bound.is_some().into());
            bound.iter().for_each(|bound| self.i64(*bound));
        }
    }
}
