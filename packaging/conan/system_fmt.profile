# The compiler of this machine, and fmt from the system's packages (libfmt-dev).
include(default)
[platform_requires]
fmt/9.1.0
