"""Generates C++ for the protocol with the system's protoc and gRPC plug-in."""

def kiln_cc_protos(name, protos, services, imports = [], deps = []):
    """One library from all .proto files of a package.

    Args:
      name: of the cc_library.
      protos: file names, without ".proto", in this package.
      services: those of them that define a service.
      imports: .proto files of other libraries of this package that they import.
      deps: those libraries.
    """
    outs = []
    for proto in protos:
        outs += [proto + ".pb.h", proto + ".pb.cc"]
    for proto in services:
        outs += [proto + ".grpc.pb.h", proto + ".grpc.pb.cc"]

    native.genrule(
        name = name + "_generate",
        srcs = [proto + ".proto" for proto in protos + imports],
        outs = outs,
        cmd = " ".join([
            "/usr/bin/protoc -I proto",
            "--cpp_out=$(GENDIR)/proto --grpc_out=$(GENDIR)/proto",
            "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
            "$(SRCS)" if not imports else " ".join(["$(location %s.proto)" % proto for proto in protos]),
        ]),
    )
    native.cc_library(
        name = name,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        copts = ["-Wno-array-bounds", "-Wno-deprecated-declarations"],
        strip_include_prefix = "/proto",
        deps = ["@system//:protobuf"] + deps,
    )
