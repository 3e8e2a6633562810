import { wrongShape } from "../errors.js";
import type { Pair } from "./movement.js";
import { Reducing } from "./reducing.js";

/** How windows lie on an image. */
export interface Windows {
  stride?: Pair;
  padding?: Pair;
}

/** A value in a graph, with all that can be computed of it. Nothing is computed here. */
export class Tensor extends Reducing {
  /** Slides a weight (out channels, in channels, height, width) over images (batch, channels, height, width). */
  conv2d(weight: Tensor, { stride = [1, 1], padding = [0, 0] }: Windows = {}): Tensor {
    this.graph.owns(weight);
    const [out, channels, high, wide] = weight.shape as [number, number, number, number];
    if (this.shape.length !== 4 || weight.shape.length !== 4 || this.shape[1] !== channels) {
      const why = "images are (batch, channels, height, width) and a weight (out, channels, height, width)";
      throw wrongShape(`conv2d: ${why}, not [${this.shape}] and [${weight.shape}]`);
    }
    const [rows, columns] = padding;
    const whole: Pair[] = [[0, 0]];
    const around = this.pad([...whole, ...whole, [rows, rows], [columns, columns]]);
    const x = around.#windows(2, high, stride[0]).#windows(3, wide, stride[1]);
    // patches (n, 1, oh, ow, c, kh, kw) · weight (1, o, 1, 1, c, kh, kw), summed over the last three.
    const [n, , oh, ow] = x.shape as [number, number, number, number];
    const patches = x.permute([0, 2, 3, 1, 4, 5]).reshape([n, 1, oh, ow, channels, high, wide]);
    return patches.mul(weight.reshape([1, out, 1, 1, channels, high, wide])).sum([-3, -2, -1]);
  }

  /** The greatest of each window of images, which lie side by side. */
  maxPool2d(high: number, wide: number): Tensor {
    if (this.shape.length !== 4) {
      throw wrongShape(`maxPool2d: images are (batch, channels, height, width), not [${this.shape}]`);
    }
    return this.#windows(2, high, high).#windows(3, wide, wide).max([-2, -1]);
  }

  /**
   * Makes of one axis the windows that fit, and puts the elements of each into a new last axis.
   *
   * The axis is laid end to end many times and the tape cut into rows one longer than the axis: then each row begins
   * one element further along. Row k, column c holds element k + c, which for every window that fits is inside the
   * axis. The windows are then every stride-th column.
   */
  #windows(axis: number, size: number, stride: number): Tensor {
    const whole = this.shape[axis]!;
    if (![size, stride].every(Number.isInteger) || size < 1 || size > whole || stride < 1) {
      throw wrongShape(`a window of ${size} elements, ${stride} apart, on axis ${axis} of [${this.shape}]`);
    }
    const windows = Math.floor((whole - size) / stride) + 1;
    // Elements that are part of no window, so that whole strides are cut.
    const more = Math.max(0, windows * stride - whole);
    const x = this.pad(this.shape.map((_, at) => [0, at === axis ? more : 0]));
    const [length, row] = [whole + more, whole + more + 1];
    const times = Math.ceil((size * row) / length);
    const replaced = (...sizes: number[]) => this.shape.toSpliced(axis, 1, ...sizes);

    const tape = x
      .reshape(replaced(1, length))
      .broadcast(replaced(times, length))
      .reshape(replaced(times * length));
    const rows = tape.keep(axis, size * row).reshape(replaced(size, row));
    const strides = rows.keep(axis + 1, windows * stride).reshape(replaced(size, windows, stride));
    const made = strides.keep(axis + 2, 1).reshape(replaced(size, windows));
    const others = [...made.shape.keys()].filter((at) => at !== axis);
    return made.permute([...others, axis]);
  }
}
