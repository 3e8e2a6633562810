"""Where tinygrad looks for device KILN: tinygrad.runtime.__path__ leads here."""

from kiln.tinygrad.device import KilnDevice as KILNDevice

__all__ = ["KILNDevice"]
