"""The drivers there are: what links a driver in reads this list."""

# Name of the folder under runtime/drivers, and the kind of device it drives
# (kiln.v1.Target.Kind).
DRIVERS = {
    "cpu": "CPU",
    "cuda": "NVPTX",
    "hip": "AMDGPU",
    "null": "NULL_TARGET",
}

DRIVER_LIBRARIES = ["//runtime/drivers/" + name for name in DRIVERS]
