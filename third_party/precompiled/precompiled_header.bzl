"""A header of other people's headers, compiled once."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.expand_template(template = ctx.file.header, output = header, substitutions = {})
    outputs = [header]

    clang = toolchain.compiler == "clang"

    # GCC takes the file of this folder that was made with the flags at hand: code
    # of libraries is compiled with -fPIC, that of static programs without. Clang is
    # given its one image by name, and then all code is -fPIC (.bazelrc).
    images = {True: ".pch"} if clang else {True: ".h.gch/pic", False: ".h.gch/static"}
    for pic, suffix in images.items():
        output = ctx.actions.declare_file(ctx.label.name + suffix)
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts,
            source_file = "-" if clang else header.path,
            output_file = output.path,
            use_pic = pic,
        )
        flags = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        )
        arguments = ctx.actions.args()
        arguments.add_all(["-x", "c++-header"])
        arguments.add_all(flags)

        # An image of Clang's names the file it was made from, which is gone with the
        # sandbox it was made in: so it reads a pipe. It keeps no times of files either.
        if clang:
            arguments.add_all(["-DKILN_PRECOMPILE", "-Xclang", "-fno-pch-timestamp"])
        ctx.actions.run_shell(
            command = 'compiler=$1 header=$2; shift 2; exec "$compiler" "$@" <"$header"',
            arguments = [toolchain.compiler_executable, header.path, arguments],
            inputs = depset([header], transitive = [toolchain.all_files]),
            outputs = [output],
            env = cc_common.get_environment_variables(
                feature_configuration = features,
                action_name = "c++-compile",
                variables = variables,
            ),
            mnemonic = "CppPrecompile",
            progress_message = "Precompiling %s" % header.short_path,
        )
        outputs.append(output)
    return [
        DefaultInfo(files = depset(outputs)),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset(outputs))),
    ]

precompiled_header = rule(
    implementation = _precompiled_header,
    attrs = {
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)
