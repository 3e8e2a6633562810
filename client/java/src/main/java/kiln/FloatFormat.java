package kiln;

import java.util.EnumMap;
import java.util.Map;

/** The bits of floats, also of those that Java has no type for. */
record FloatFormat(int exponent, int mantissa, int bias, Style style) {
    /** What is beyond the greatest value, and what NaN is. */
    enum Style {
        IEEE,
        /** As IEEE, but finite values stay so. */
        SATURATING,
        NO_INFINITY,
        /** No infinity, and no negative zero. */
        FNUZ
    }

    private static final Map<kiln.v1.DType, FloatFormat> FORMATS =
            new EnumMap<>(
                    Map.of(
                            kiln.v1.DType.FLOAT16, new FloatFormat(5, 10, 15, Style.IEEE),
                            kiln.v1.DType.BFLOAT16, new FloatFormat(8, 7, 127, Style.IEEE),
                            kiln.v1.DType.FLOAT32, new FloatFormat(8, 23, 127, Style.IEEE),
                            kiln.v1.DType.FLOAT64, new FloatFormat(11, 52, 1023, Style.IEEE),
                            kiln.v1.DType.WEAKFLOAT, new FloatFormat(11, 52, 1023, Style.IEEE),
                            kiln.v1.DType.FLOAT8_E4M3, new FloatFormat(4, 3, 7, Style.NO_INFINITY),
                            kiln.v1.DType.FLOAT8_E5M2, new FloatFormat(5, 2, 15, Style.SATURATING),
                            kiln.v1.DType.FLOAT8_E4M3_FNUZ, new FloatFormat(4, 3, 8, Style.FNUZ),
                            kiln.v1.DType.FLOAT8_E5M2_FNUZ, new FloatFormat(5, 2, 16, Style.FNUZ)));

    /** Null for what is no float. */
    static FloatFormat of(kiln.v1.DType dtype) {
        return FORMATS.get(dtype);
    }

    int bits() {
        return 1 + exponent + mantissa;
    }

    private long sign() {
        return 1L << (exponent + mantissa);
    }

    private long infinity() {
        return ((1L << exponent) - 1) << mantissa;
    }

    private long nan() {
        return switch (style) {
            case FNUZ -> sign();
            case NO_INFINITY -> sign() - 1;
            default -> infinity() | 1L << (mantissa - 1);
        };
    }

    private long greatest() {
        return switch (style) {
            case FNUZ -> sign() - 1;
            case NO_INFINITY -> sign() - 2;
            default -> infinity() - 1;
        };
    }

    /** The bits of a number, rounded once to nearest, ties to even. */
    long pattern(double value) {
        boolean negative = Double.doubleToRawLongBits(value) < 0;
        boolean endless = Double.isInfinite(value);
        if (Double.isNaN(value) || endless && style.compareTo(Style.NO_INFINITY) >= 0) {
            return nan();
        }
        if (endless) {
            return signed(infinity(), negative);
        }
        long bits = Double.doubleToRawLongBits(value) & Long.MAX_VALUE;
        int power = (int) (bits >>> 52);
        long fraction = bits & (1L << 52) - 1;
        return round(
                negative, power == 0 ? fraction : fraction | 1L << 52, Math.max(power, 1) - 1075);
    }

    /** The bits of an integer, of which the magnitude has 64 bits. */
    long ofInteger(boolean negative, long magnitude) {
        return round(negative, magnitude, 0);
    }

    /** The bits of magnitude · 2^power, of which the magnitude has 64 bits. */
    private long round(boolean negative, long magnitude, int power) {
        if (magnitude == 0) {
            return signed(0, negative);
        }
        // The exponent of the leading bit, or the least that is not subnormal; and how many bits
        // are too many.
        int leading = Math.max(power + 63 - Long.numberOfLeadingZeros(magnitude), 1 - bias);
        int drop = leading - mantissa - power;
        long units;
        if (drop <= 0) {
            units = magnitude << -drop;
        } else if (drop > 64) {
            units = 0;
        } else {
            long half = 1L << (drop - 1);
            long rest = magnitude & (half - 1 | half);
            units = drop < 64 ? magnitude >>> drop : 0;
            int compared = Long.compareUnsigned(rest, half);
            units += compared > 0 || compared == 0 && (units & 1) == 1 ? 1 : 0;
        }
        // A carry into the exponent is as it should be.
        long pattern = ((long) (leading + bias - 1) << mantissa) + units;
        if (pattern > greatest()) {
            pattern = style == Style.IEEE ? infinity() : greatest();
        }
        return signed(pattern, negative);
    }

    private long signed(long pattern, boolean negative) {
        return negative && !(style == Style.FNUZ && pattern == 0) ? pattern | sign() : pattern;
    }

    /** What bits stand for. */
    double number(long pattern) {
        boolean negative = (pattern & sign()) != 0;
        if (negative && style == Style.FNUZ && pattern == sign()) {
            return Double.NaN;
        }
        long rest = pattern & sign() - 1;
        double magnitude;
        if (rest > greatest()) {
            boolean endless = style.compareTo(Style.SATURATING) <= 0 && rest == infinity();
            magnitude = endless ? Double.POSITIVE_INFINITY : Double.NaN;
        } else {
            int power = (int) (rest >>> mantissa);
            long units = rest & (1L << mantissa) - 1 | (power > 0 ? 1L << mantissa : 0);
            magnitude = Math.scalb((double) units, Math.max(power, 1) - bias - mantissa);
        }
        return negative ? -magnitude : magnitude;
    }
}
