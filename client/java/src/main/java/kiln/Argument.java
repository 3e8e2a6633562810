package kiln;

/**
 * What a program can be given: an {@link NdArray}, a {@link DeviceBuffer} or a part of one, a
 * number for a variable, or one of these by name or slot.
 */
public sealed interface Argument
        permits NdArray,
                DeviceBuffer,
                Argument.Part,
                Argument.Whole,
                Argument.Named,
                Argument.InSlot {
    /** A variable's value. */
    static Argument integer(long value) {
        return new Whole(value);
    }

    /** An argument for the parameter or variable of that name, wherever it stands. */
    static Argument named(String name, Argument value) {
        if (value instanceof Named || value instanceof InSlot) {
            throw Failures.badArgument("\"%s\" is given a second name", name);
        }
        return new Named(name, value);
    }

    /**
     * An argument for the parameter or variable in that slot, such as a constant of a model's file.
     */
    static Argument inSlot(int slot, Argument value) {
        if (value instanceof Named || value instanceof InSlot) {
            throw Failures.badArgument("what is for slot %d is for another, too", slot);
        }
        return new InSlot(slot, value);
    }

    /** A variable's value. */
    record Whole(long value) implements Argument {}

    /** An argument by name. */
    record Named(String name, Argument value) implements Argument {}

    /** An argument by slot. */
    record InSlot(int slot, Argument value) implements Argument {}

    /** The part of a buffer from a byte on; {@link DeviceBuffer#at} makes it. */
    record Part(DeviceBuffer buffer, long offset) implements Argument {}
}
