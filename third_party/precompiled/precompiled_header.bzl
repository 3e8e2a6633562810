"""A header of headers that most files read, compiled once."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    image = ctx.actions.declare_file(ctx.label.name + ".pch")

    # An image names the files it was made from, and where they were is gone with the sandbox it was
    # made in: so the compiler reads a pipe, which brings the text of what is not the system's. It
    # keeps no times of files either.
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                             ["-Xclang", "-fno-pch-timestamp", "-fpch-instantiate-templates"],
        source_file = "-",
        output_file = image.path,
        use_pic = True,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = "c++-compile",
        variables = variables,
    )
    arguments = ctx.actions.args()
    arguments.add_all(["-x", "c++-header"])
    arguments.add_all(flags)
    ctx.actions.run_shell(
        command = "compiler=$1 texts=$2; shift 2; " +
                  "cat $texts | sed -E '/^#include \"(kiln|grpc.health).*/d' | \"$compiler\" \"$@\"",
        arguments = [
            toolchain.compiler_executable,
            " ".join([file.path for file in [ctx.file.header] + ctx.files.generated]),
            arguments,
        ],
        inputs = depset([ctx.file.header] + ctx.files.generated, transitive = [toolchain.all_files]),
        outputs = [image],
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling %s" % ctx.file.header.short_path,
    )
    return [
        DefaultInfo(files = depset([image])),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset([image]))),
    ]

precompiled_header = rule(
    implementation = _precompiled_header,
    attrs = {
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "generated": attr.label_list(
            allow_files = [".h"],
            doc = "Headers that the build makes, each after those that it includes. They become part of the image " +
                  "as if they stood at the end of `header`; who includes one finds its guard defined.",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)
