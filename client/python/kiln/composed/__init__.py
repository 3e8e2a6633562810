"""Functions of tensors that are compositions of the builder's: what numpy has and the IR has no op for.

Each file is one subject, and imports what it is made of; kiln.numpy gives them their names.
"""
