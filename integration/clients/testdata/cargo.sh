mkdir -p src .cargo
echo 'fn main() {}' >src/main.rs
cat >.cargo/config.toml <<CONFIG
[registries.company]
index = "sparse+https://$1/crates/"
CONFIG
cat >Cargo.toml <<MANIFEST
[package]
name = "program"
version = "1.0.0"
[dependencies]
hello = { version = "1", registry = "company" }
MANIFEST
export CARGO_HOME=/tmp/cargo
cargo fetch -q
ls cargo/registry/src/*/hello-1.0.0/src/lib.rs
