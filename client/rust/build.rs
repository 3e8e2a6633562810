//! Makes the protocol's messages of `proto/kiln/v1`, and those of the open inference protocol of `proto/inference`,
//! without protoc, and of each RPC a constant that says its path and its messages (`v1::kernel_service::COMPILE`).
//! Nothing of it is kept in the tree.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;
use prost_build::{Config, Service, ServiceGenerator};

const SERVICES: [&str; 6] = ["kernel", "buffer", "device", "session", "debug", "collective"];

/// Writes the constants of one service into a module of its name.
struct Methods;

impl ServiceGenerator for Methods {
    fn generate(&mut self, service: Service, to: &mut String) {
        let name = snake(&service.name);
        to.push_str(&format!("/// The calls of {}.\npub mod {name} {{\n", service.proto_name));
        for method in &service.methods {
            let kind = match (method.client_streaming, method.server_streaming) {
                (false, false) => "Unary",
                (false, true) => "Downloads",
                (true, false) => "Uploads",
                (true, true) => "Converses",
            };
            let path = format!("/{}.{}/{}", service.package, service.proto_name, method.proto_name);
            to.push_str(&format!(
                "    /// `{}.{}`\n    pub const {}: crate::v1::Method<super::{}, super::{}, crate::v1::{kind}> = \
                 crate::v1::Method::new({path:?});\n",
                service.proto_name,
                method.proto_name,
                method.name.to_uppercase(),
                method.input_type,
                method.output_type,
            ));
        }
        to.push_str("}\n");
    }
}

fn snake(name: &str) -> String {
    let mut made = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !made.is_empty() {
            made.push('_');
        }
        made.extend(letter.to_lowercase());
    }
    made
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    for folder in ["kiln/v1", "inference"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    let files = SERVICES.map(|name| format!("kiln/v1/{name}_service.proto"));
    let others = ["kiln/v1/error.proto".to_string(), "inference/grpc_service.proto".to_string()];
    let described = protox::compile(files.iter().chain(&others), [root])?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("kiln.bin"), described.encode_to_vec())?;
    Config::new().bytes(["."]).disable_comments(["."]).service_generator(Box::new(Methods)).compile_fds(described)?;
    Ok(())
}
