package kiln;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.regex.Pattern;
import kiln.v1.ConstArg;
import kiln.v1.ConstArg.ValueCase;

/**
 * A constant's canonical form (proto/README.md): every way to write a value gives the same bytes.
 */
final class CanonicalConstant {
    private static final Pattern DECIMAL = Pattern.compile("-?[0-9]+");
    private static final int MOST_DIGITS = 1000;
    private static final BigInteger LEAST_LONG = BigInteger.valueOf(Long.MIN_VALUE);
    private static final BigInteger MOST_LONG = BigInteger.valueOf(Long.MAX_VALUE);

    private CanonicalConstant() {}

    static void write(CanonicalBytes to, ConstArg arg) {
        FloatFormat format = FloatFormat.of(arg.getDtype());
        int width = integerBits(arg.getDtype());
        if (format == null && width == 0) {
            throw Failures.badArgument("a constant of dtype %d", arg.getDtypeValue());
        }
        to.u32(arg.getDtypeValue());
        if (arg.getValueCase() == ValueCase.VALUE_NOT_SET
                || arg.getValueCase() == ValueCase.INVALID && !arg.getInvalid()) {
            throw Failures.badArgument("a constant without a value");
        }
        if (arg.getValueCase() == ValueCase.INVALID) {
            to.u8(1);
        } else if (format != null) {
            to.u8(0).i64(floatBits(format, arg));
        } else {
            writeInteger(to, arg, width);
        }
    }

    private static void writeInteger(CanonicalBytes to, ConstArg arg, int width) {
        BigInteger value = integer(arg, width);
        boolean isWeak = arg.getDtype() == kiln.v1.DType.WEAKINT;
        if (isWeak && (value.compareTo(LEAST_LONG) < 0 || value.compareTo(MOST_LONG) > 0)) {
            to.u8(2).string(value.toString());
            return;
        }
        if (!isWeak && !fits(DType.of(arg.getDtype()), value)) {
            throw Failures.badArgument("%s does not fit %s", value, DType.of(arg.getDtype()));
        }
        to.u8(0).i64(value.longValue());
    }

    /** 0 for what is neither an integer nor a bool. */
    private static int integerBits(kiln.v1.DType wire) {
        if (wire == kiln.v1.DType.WEAKINT) {
            return 64;
        }
        DType dtype = DType.of(wire);
        return dtype == null || dtype.isFloat() ? 0 : 8 * dtype.bytes();
    }

    private static boolean isSigned(kiln.v1.DType wire) {
        DType dtype = DType.of(wire);
        return wire == kiln.v1.DType.WEAKINT || dtype != null && dtype.kind == DType.Kind.SIGNED;
    }

    private static boolean fits(DType dtype, BigInteger value) {
        return switch (dtype.kind) {
            case TRUTH -> value.signum() >= 0 && value.bitLength() <= 1;
            case SIGNED -> value.bitLength() < 8 * dtype.bytes();
            default -> value.signum() >= 0 && value.bitLength() <= 8 * dtype.bytes();
        };
    }

    /** The value of an integer or bool constant, not yet checked against its range. */
    private static BigInteger integer(ConstArg arg, int width) {
        switch (arg.getValueCase()) {
            case B:
                return arg.getB() ? BigInteger.ONE : BigInteger.ZERO;
            case I:
                return BigInteger.valueOf(arg.getI());
            case U:
                return unsigned(arg.getU());
            case F:
                double number = arg.getF();
                if (Double.isInfinite(number)
                        || number != Math.rint(number)) { // a NaN is not itself
                    throw Failures.badArgument("%s is no integer", number);
                }
                return new BigDecimal(number).toBigInteger();
            case BITS:
                if (width < 64 && arg.getBits() >>> width != 0) {
                    throw Failures.badArgument("bits above the dtype's width");
                }
                int unused = 64 - width;
                return isSigned(arg.getDtype())
                        ? BigInteger.valueOf(arg.getBits() << unused >> unused)
                        : unsigned(arg.getBits());
            case DECIMAL:
                String text = arg.getDecimal();
                if (text.length() > MOST_DIGITS || !DECIMAL.matcher(text).matches()) {
                    throw Failures.badArgument("\"%.40s\" is no decimal number", text);
                }
                return new BigInteger(text);
            default:
                throw Failures.badArgument("a constant of a form that this package does not know");
        }
    }

    private static BigInteger unsigned(long value) {
        return new BigInteger(Long.toUnsignedString(value));
    }

    private static long floatBits(FloatFormat format, ConstArg arg) {
        switch (arg.getValueCase()) {
            case B:
                return arg.getB() ? format.ofInteger(false, 1) : 0;
            case I:
                return format.ofInteger(
                        arg.getI() < 0, Math.abs(arg.getI())); // of the least, 2^63 unsigned
            case U:
                return format.ofInteger(false, arg.getU());
            case F:
                return format.pattern(arg.getF());
            case BITS:
                if (format.bits() < 64 && arg.getBits() >>> format.bits() != 0) {
                    throw Failures.badArgument("bits above the dtype's width");
                }
                return arg.getBits();
            default:
                throw Failures.badArgument("a float in decimal");
        }
    }
}
