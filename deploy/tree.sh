#!/usr/bin/env bash
# tree.sh FOLDER BINARY…: these programs, and what they need of a Debian machine, as a tree that can be moved. It runs
# where there is glibc 2.36 or later, libstdc++ and, for GPUs, their driver; nothing else.
#
#   FOLDER/bin   the programs, stripped
#   FOLDER/lib   the libraries they load, found by RPATH
#   FOLDER/packages   a line for each file: its path, and of a library the Debian package that it is from
#
# Debian's libLLVM has all of LLVM's targets and tools in it, 150 MB. The one in here is linked anew,
# from the same package's static libraries, with what the programs ask for and nothing else.
#
# The same programs and packages give the same bytes.
set -euo pipefail

LLVM=/usr/lib/llvm-22
LLVM_LIBRARY=libLLVM.so.22.1 LLVM_VERSION=LLVM_22.1  # its name, and that of its symbols' version
# Of the host: what its libc, its compiler's runtime and its drivers bring.
HOSTS='^(ld-linux.*|linux-vdso|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libresolv)\.so'

say() { printf '%s\n' "tree: $*" >&2; }

mkdir -p "$1/bin" "$1/lib"
root=$(realpath "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install -m 755 "$@" "$root/bin/"
strip "$root"/bin/*

# The package that a file is from, or nothing. Where /lib is a link to /usr/lib, dpkg knows it by one of both names.
package_of() {
  local path
  path=$(realpath "$1")
  { dpkg-query -S "$path" || dpkg-query -S "${path#/usr}" || dpkg-query -S "/usr$path"; } 2>/dev/null | sed 's/: .*//; s/:.*//; q' || true
}

# Libraries of all programs, and of those libraries.
ldd "$root"/bin/* | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u | while read -r name path; do
  [[ $name =~ $HOSTS ]] && continue
  package=$(package_of "$path")
  # Not ours, and nobody says under what licence it may be given away.
  [[ -n $package ]] || { say "$name: no Debian package has $path"; exit 1; }
  install -m 644 "$path" "$root/lib/$name"
  echo "lib/$name $package" >>"$work/packages"
done

if [[ -e $root/lib/$LLVM_LIBRARY ]]; then
  # What is undefined, and variables, of which a program has a copy.
  nm -D "$root"/bin/* | sed -n "s/.* \([^ ]*\)@$LLVM_VERSION\$/\1/p" | sort -u >"$work/symbols"
  say "linking libLLVM with $(wc -l <"$work/symbols") symbols"
  { echo "$LLVM_VERSION {" && echo 'global:' && sed 's/$/;/' "$work/symbols" && echo 'local: *; };'; } >"$work/versions"
  sed 's/^/-Wl,-u,/' "$work/symbols" >"$work/wanted"
  # The linker for AMD's objects knows how to optimize whole programs, by Polly, too; here it is given machine code.
  "$LLVM/bin/clang++" -shared -fuse-ld=lld -o "$root/lib/$LLVM_LIBRARY" -Wl,-soname,$LLVM_LIBRARY \
    -Wl,--defsym=_Z18getPollyPluginInfov=0 \
    "-Wl,--version-script=$work/versions" -Wl,--gc-sections -Wl,-s -Wl,-z,defs "@$work/wanted" \
    -Wl,--start-group "$LLVM"/lib/libLLVM*.a -Wl,--end-group -lz -lzstd -lpthread -ldl -lm
  # What only the whole library needed.
  LD_LIBRARY_PATH=$root/lib ldd "$root"/bin/* | sed -n 's/^\t\([^ ]*\) => .*/\1/p' | sort -u >"$work/needed"
  for file in "$root"/lib/*; do grep -qxF "$(basename "$file")" "$work/needed" || rm "$file"; done
fi
[[ -z $(ls "$root/lib") ]] || strip --strip-unneeded "$root"/lib/*

# DT_RPATH, which libraries of libraries are found by, too; DT_RUNPATH is not.
for file in "$root"/bin/*; do patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$file"; done
for file in "$root"/lib/*; do patchelf --remove-rpath "$file"; done

# Each finds its libraries in the tree or is of the host's own, and comes up.
for file in "$root"/bin/*; do
  env -i ldd "$file" | sed -n 's/^\t\([^ ]*\) => \(.*\)/\1 \2/p' | while read -r name path; do
    [[ $path == "$root"/* || ($name =~ $HOSTS && $path != 'not found') ]] || { say "$(basename "$file"): $name is $path"; exit 1; }
  done
  env -i "$file" --help >/dev/null || { say "$(basename "$file") does not come up"; exit 1; }
done

{
  for file in "$root"/bin/*; do echo "bin/$(basename "$file")"; done
  while read -r file package; do [[ ! -e $root/$file ]] || echo "$file $package"; done <"$work/packages"
} >"$root/packages"
