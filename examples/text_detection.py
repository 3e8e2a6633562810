"""Where in a picture is text? The detector of PP-OCR marks it; the boxes go into text_detection.png.

    ./dev run & python examples/text_detection.py       # KILN_ADDR: another server than localhost:7437
"""
import importlib.util, os, pathlib, tempfile

os.environ.setdefault("DEV", "KILN")
import kiln.tinygrad
import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

PACKAGE = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent
MODEL = PACKAGE / "models" / "ch_PP-OCRv4_det_infer.onnx"
LINES = [("Kiln compiles", (20, 14), 26), ("UOp graphs", (150, 62), 22), ("to machine code", (28, 112), 24)]

def draw():
    """A picture with text, and the box around each line: left, top, right, bottom."""
    picture = Image.new("RGB", (320, 160), "ivory")  # sides are multiples of 32
    pen, boxes = ImageDraw.Draw(picture), []
    pen.ellipse((30, 55, 90, 100), fill="steelblue")
    pen.rectangle((250, 10, 300, 45), outline="firebrick", width=4)
    for text, place, size in LINES:
        pen.text(place, text, "black", font=ImageFont.load_default(size))
        boxes.append(pen.textbbox(place, text, font=ImageFont.load_default(size)))
    return picture, boxes

def load():
    """The model. Its Resizes have a region without a data field; the importer wants one, if an empty one."""
    model = onnx.load(MODEL)
    for attribute in (a for node in model.graph.node for a in node.attribute if list(a.t.dims) == [0]):
        attribute.t.raw_data = b""
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, os.path.join(folder, "model.onnx"))
        return OnnxRunner(os.path.join(folder, "model.onnx"))

def find(picture, threshold=0.3, grow=1.6):
    """How likely each pixel is text, and boxes around what is: it marks a line's core, which is grown."""
    pixels = (np.asarray(picture, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5  # blue first
    heat = next(iter(load()({"x": Tensor(pixels.transpose(2, 0, 1)[None].copy())}).values())).numpy()[0, 0]
    boxes = []
    for rows, columns in ndimage.find_objects(ndimage.label(heat > threshold)[0]):
        height, width = rows.stop - rows.start, columns.stop - columns.start
        edge = grow * width * height / (2 * (width + height))
        if heat[rows, columns].mean() > 0.5:
            boxes.append((columns.start - edge, rows.start - edge, columns.stop + edge, rows.stop + edge))
    return heat, boxes

def main(output="text_detection.png"):
    heat, boxes = find(picture := draw()[0])
    for box in boxes:
        ImageDraw.Draw(picture).rectangle(box, outline="red", width=2)
        print("text from (%3.0f, %3.0f) to (%3.0f, %3.0f)" % box)
    picture.save(output)
    return heat, boxes

if __name__ == "__main__": main()
