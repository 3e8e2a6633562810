package kiln;

/** The part of a buffer from a byte on, as an argument; {@link DeviceBuffer#at} makes it. */
public final class BufferPart implements Argument {
    final DeviceBuffer buffer;
    final long offset;

    BufferPart(DeviceBuffer buffer, long offset) {
        this.buffer = buffer;
        this.offset = offset;
    }
}
