//! Programs in C and C++ against the header and both libraries, as they are built.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder with the libraries. Cargo builds what nothing in Rust can link with only when told to.
fn built() -> &'static str {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| {
        let options = ["build", "--locked", "--message-format=json", "--package"];
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(options).arg(env!("CARGO_PKG_NAME"));
        let output = run(&mut cargo);
        let (before, _) = output.split_once("/libullage_clock.so\"").expect("built");
        let (_, path) = before.rsplit_once('"').expect("path");
        path.to_owned()
    })
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn run(command: &mut Command) -> String {
    let done = command.output().expect("starts");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {errors}");
    String::from_utf8(done.stdout).expect("text")
}

const STRICT: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"];

/// Compiles with these last words, and returns the program.
fn compile(compiler: &str, standard: &str, source: &str, link: &[&str]) -> PathBuf {
    let name = format!("{compiler}-{}-{}", link.len(), std::process::id());
    let program = std::env::temp_dir().join(name);
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT);
    command.arg("-I").arg(folder("include"));
    command.arg(folder("tests").join(source));
    command.args(link).arg("-o").arg(&program);
    run(&mut command);
    program
}

fn shared(folder: &str) -> [String; 3] {
    let rpath = format!("-Wl,-rpath,{folder}");
    [format!("-L{folder}"), "-lullage_clock".to_owned(), rpath]
}

#[test]
fn a_c_program_works_with_both_libraries() {
    let archive = format!("{}/libullage_clock.a", built());
    let by_archive = compile("cc", "-std=c11", "abi.c", &[&archive, "-lm"]);
    let shared = shared(built());
    let by_shared = compile(
        "cc",
        "-std=c11",
        "abi.c",
        &shared.each_ref().map(String::as_str),
    );
    for program in [by_archive, by_shared] {
        run(&mut Command::new(&program));
        fs::remove_file(program).expect("remove");
    }
}

#[test]
fn the_header_is_good_for_cplusplus() {
    let shared = shared(built());
    let program = compile(
        "c++",
        "-std=c++17",
        "plus.cpp",
        &shared.each_ref().map(String::as_str),
    );
    run(&mut Command::new(&program));
    fs::remove_file(program).expect("remove");
}

/// What the header declares is there, and nothing else is.
#[test]
fn the_header_has_every_function() {
    let header = fs::read_to_string(folder("include").join("ullage_clock.h")).expect("header");
    let declared: BTreeSet<&str> = header
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '(')
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("ullage_"))
        .collect();
    let library = format!("{}/libullage_clock.so", built());
    let symbols = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library));
    let exported: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .filter(|name| name.starts_with("ullage_"))
        .collect();
    assert_eq!(declared, exported);
}
