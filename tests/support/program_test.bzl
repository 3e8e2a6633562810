"""A test that is a run of a program which is built anyway: nothing is compiled or linked a second time for it."""

def _program_test(ctx):
    test = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = test, target_file = ctx.executable.program, is_executable = True)
    runfiles = ctx.runfiles(files = ctx.files.data).merge(ctx.attr.program[DefaultInfo].default_runfiles)
    env = {name: ctx.expand_location(value, ctx.attr.data) for name, value in ctx.attr.env.items()}
    return [DefaultInfo(executable = test, runfiles = runfiles), testing.TestEnvironment(env)]

program_test = rule(
    implementation = _program_test,
    attrs = {
        "program": attr.label(
            executable = True,
            mandatory = True,
            cfg = "target",
            doc = "It gets `args`, and passes by ending with 0.",
        ),
        "data": attr.label_list(allow_files = True),
        "env": attr.string_dict(),
    },
    test = True,
)
