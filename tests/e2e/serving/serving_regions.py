"""Shared memory as Triton's own client makes it, for tests of servers that take it by name."""

import itertools
import os

import numpy as np
import tritonclient.utils.shared_memory as shm

NUMBERS = itertools.count()
FOLDER = "/dev/shm"


class Region:
    """`nbytes` of shared memory under a key of their own; gone with the test."""

    def __init__(self, test, nbytes):
        self.key = "/kiln_test_%d_%d" % (os.getpid(), next(NUMBERS))
        self.path = FOLDER + self.key
        self.nbytes = nbytes
        self.handle = shm.create_shared_memory_region("of the test", self.key, nbytes)
        test.addCleanup(shm.destroy_shared_memory_region, self.handle)

    def put(self, array, offset=0):
        shm.set_shared_memory_region(self.handle, [array], offset)
        return self

    def get(self, dtype, shape, offset=0):
        return np.array(shm.get_contents_as_numpy(self.handle, dtype, shape, offset))

    def register(self, client, name, **more):
        client.register_system_shared_memory(name, self.key, more.pop("nbytes", self.nbytes), **more)
        return self


def placed(tensor, region, nbytes, offset=0):
    """The input or the output `tensor`, of which the bytes are in the region."""
    tensor.set_shared_memory(region, nbytes, offset)
    return tensor
