package kiln;

import kiln.v1.Op;

/** How reductions and collectives combine. */
public enum Reduction {
    /** The sum. */
    SUM(Op.ADD),
    /** The product. */
    PRODUCT(Op.MUL),
    /** The greatest; NaN if one is. */
    MAXIMUM(Op.MAX);

    final Op op;

    Reduction(Op op) {
        this.op = op;
    }
}
