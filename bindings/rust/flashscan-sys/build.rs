// SPDX-License-Identifier: Apache-2.0
// Links the library that FLASHSCAN_LIBRARY names, or libflashscan.so from FLASHSCAN_LIB_DIR, from the Python package that the
// crate came with, or where pkg-config finds it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for name in ["FLASHSCAN_LIBRARY", "FLASHSCAN_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-lib=dylib=flashscan");
    if let Some(file) = env::var_os("FLASHSCAN_LIBRARY").filter(|file| !file.is_empty()) {
        return link_file(Path::new(&file));
    }
    let named = env::var_os("FLASHSCAN_LIB_DIR").map(PathBuf::from);
    let folder = named.or_else(from_python_package).or_else(from_pkg_config);
    let folder = folder.unwrap_or_else(|| {
        panic!(
            "libflashscan was not found: set FLASHSCAN_LIBRARY to the path of the library's file, or PKG_CONFIG_PATH to \
             the folder that holds flashscan.pc"
        )
    });
    if folder != Path::new("") {
        link_from(&folder);
    }
}

/// The folder lib/ of the package that has the crates in share/rust/.
fn from_python_package() -> Option<PathBuf> {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let folder = crate_folder.join("../../../lib");
    folder.join("libflashscan.so").exists().then_some(folder)
}

/// The folder of the installed library, empty if the linker knows it anyway.
fn from_pkg_config() -> Option<PathBuf> {
    let tool = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let asked = Command::new(tool).args(["--variable=libdir", "flashscan >= 1.0"]).output().ok()?;
    let folder = String::from_utf8(asked.stdout).ok()?;
    asked.status.success().then(|| PathBuf::from(folder.trim()))
}

/// Links a file whose name is any.
fn link_file(file: &Path) {
    let file = fs::canonicalize(file).unwrap_or_else(|e| {
        panic!("FLASHSCAN_LIBRARY is {}: {e}; accepted is the full path of the library's file", file.display())
    });
    let folder = file.parent().expect("a file lies in a folder").to_path_buf();
    let mut targets = vec![("libflashscan.so".into(), file.clone()), ("libflashscan.so.1".into(), file)];
    let openmp = folder.join("openmp");
    if openmp.exists() {
        targets.push(("openmp".into(), openmp));
    }
    link(&folder, targets);
}

/// Links the library in a folder, with the OpenMP runtime that a Python package has beside it.
fn link_from(folder: &Path) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut targets = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("libflashscan.so") || name == *"openmp" {
            targets.push((name, fs::canonicalize(entry.path()).expect("the library can be read")));
        }
    }
    let found = targets.iter().any(|(name, _)| name == "libflashscan.so");
    assert!(found, "{} holds no libflashscan.so", folder.display());
    link(folder, targets);
}

/// Programs started by cargo find shared libraries in folders below OUT_DIR alone, so the library is linked from there.
fn link(folder: &Path, targets: Vec<(OsString, PathBuf)>) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("lib");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).expect("OUT_DIR can be written");
    for (name, target) in targets {
        symlink(target, out.join(name)).expect("OUT_DIR takes links");
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:lib_dir={}", folder.display());
}
